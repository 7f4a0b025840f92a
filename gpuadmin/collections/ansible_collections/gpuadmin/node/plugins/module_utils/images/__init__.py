"""Images of a root: building, sending, switching to one on trial, and going back."""

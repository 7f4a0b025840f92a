"""Code that verbs of the take-over share."""

"""A root that is read-only: opening it, closing it, and changing files on it."""

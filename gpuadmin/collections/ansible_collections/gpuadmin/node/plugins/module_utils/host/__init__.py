"""A host as such: what roles and admins have to know of it."""

"""A site: its schema, its files, and errors that name the file and the path in it."""

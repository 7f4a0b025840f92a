"""Home directories, and the archives that are made of them."""

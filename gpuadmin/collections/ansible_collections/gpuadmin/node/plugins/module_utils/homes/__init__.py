"""Home directories, and the attic that they go to."""

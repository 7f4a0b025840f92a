"""The plan of `renumber`, and its words for it. Pure."""

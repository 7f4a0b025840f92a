"""BMCs: the small computers in servers that switch them on and off, asked from another host of the site."""

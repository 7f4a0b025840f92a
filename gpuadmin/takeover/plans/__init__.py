"""What `renumber` decides and says before it begins. Pure."""

"""What plugins on the controller have in common."""

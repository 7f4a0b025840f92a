"""What a host is set to, by section, so that hosts can be compared. It only looks."""

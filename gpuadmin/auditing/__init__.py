"""Which box is which, and how its sshd should be set: from what hosts say to findings. Pure."""

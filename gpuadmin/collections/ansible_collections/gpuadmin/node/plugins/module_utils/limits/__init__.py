"""Limits: how much of a node one person gets, and what is kept for root: told to systemd, read in the kernel."""

"""What is done about GPUs that are held and not used; and the hosts' certificates. Pure."""

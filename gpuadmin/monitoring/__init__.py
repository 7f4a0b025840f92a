"""What is measured of the cluster: who holds which GPU, what is free, idle, used; and the hosts' certificates. Pure."""

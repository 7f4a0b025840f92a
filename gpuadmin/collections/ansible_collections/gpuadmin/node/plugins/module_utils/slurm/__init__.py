"""Slurm: its jobs become grants of GPUs, its accounts follow people, its nodes are what the hosts say of themselves."""

"""What a node measures for Prometheus: its GPUs, who holds them, and what each person uses."""

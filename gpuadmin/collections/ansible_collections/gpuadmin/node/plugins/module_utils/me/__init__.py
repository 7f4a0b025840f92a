"""gpuadmin-me: what people ask a node about themselves. It runs as they are, and says nothing of anybody else."""

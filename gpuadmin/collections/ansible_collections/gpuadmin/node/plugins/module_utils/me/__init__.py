"""gpuadmin-me: people ask a node about themselves, as who they are; of others it says who was granted a GPU."""

"""gpuadmin-me: what people ask a node about themselves, as they are; of others it says who was granted a GPU."""

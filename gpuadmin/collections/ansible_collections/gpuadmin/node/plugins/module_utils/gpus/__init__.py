"""The GPUs of a node: what is on its bus, what their driver says of them, and what is missing."""

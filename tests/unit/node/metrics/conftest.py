"""A node with GPUs that are described in a file, as for the looks at them."""

from tests.support.gpu_node import node

__all__ = ["node"]

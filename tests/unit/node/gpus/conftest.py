"""A node with GPUs that are described in a file, without hardware."""

from tests.support.gpu_node import node

__all__ = ["node"]

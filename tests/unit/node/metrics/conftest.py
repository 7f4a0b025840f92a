"""A node with GPUs that are described in a file, as for the looks at them."""

from tests.unit.node.gpus.conftest import node

__all__ = ["node"]

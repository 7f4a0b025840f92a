"""A node's place in a chain that passes an image on."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  link:
    description: The node's place in the chain.
    type: dict
    suboptions:
      port:
        description: The port that a relay listens on; none for no chain.
        type: int
      previous:
        description: Address of the node before; empty for the first.
        type: str
      next:
        description: Address of the node after it; empty for the last.
        type: str
"""

"""Where a node keeps what is its own."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  state_directory:
    description: Directory of this node's own state.
    type: path
    default: /var/lib/gpuadmin
"""

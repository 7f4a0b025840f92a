"""What a unit of its own runs on a node."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  code:
    description: Where the node-side code lies.
    type: path
    default: /var/lib/gpuadmin/lib/gpuadmin_node
  python:
    description: What runs it.
    type: path
    default: /usr/bin/python3
"""

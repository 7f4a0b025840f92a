"""Where homes are."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  root:
    description: Directory of homes.
    type: path
    required: true
"""

    MOUNTPOINT = r"""
options:
  mountpoint:
    description: Mount point that must be mounted.
    type: path
"""

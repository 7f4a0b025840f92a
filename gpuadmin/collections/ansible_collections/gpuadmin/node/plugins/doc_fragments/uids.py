"""Which uids are people's, where modules take them alike."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  uid_first:
    description: First uid of people.
    type: int
    required: true
  uid_last:
    description: Last uid of people.
    type: int
    required: true
"""

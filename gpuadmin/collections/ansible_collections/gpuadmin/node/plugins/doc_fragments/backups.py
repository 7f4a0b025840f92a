"""Where backups are."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  directory:
    description: Directory of backups.
    type: path
    required: true
"""

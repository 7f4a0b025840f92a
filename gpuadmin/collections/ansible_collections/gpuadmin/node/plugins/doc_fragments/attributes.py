"""How modules take check mode and --diff, where they take them alike."""

from __future__ import annotations


class ModuleDocFragment:
    # What changes a host.
    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: The plan of check mode is made by the code that does the work.
    support: full
  diff_mode:
    description: There is nothing to show beyond the operations.
    support: none
"""

    # What only looks.
    LOOK = r"""
attributes:
  check_mode:
    description: It only looks.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

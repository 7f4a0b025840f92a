"""Lists of people of whom each is checked by itself."""

from __future__ import annotations

# A module adds what the list is for.
_NAMED = r"""
options:
  {option}:
    type: json
    default: "[]"
"""


class ModuleDocFragment:
    # Ansible takes no fragment that has no options.
    DOCUMENTATION = r"""
options: {}
notes:
  - In lists of people, of mappings with C(name) and C(uid) or the same as JSON, an entry is checked by itself. One that
    is refused is reported as that person's, and the others go on. Other fields are not looked at.
"""

    ABSENT = _NAMED.format(option="absent")
    ARCHIVE = _NAMED.format(option="archive")
    REMEMBER = _NAMED.format(option="remember")

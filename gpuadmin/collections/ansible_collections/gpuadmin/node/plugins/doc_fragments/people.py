"""People as one call takes them: all of them, or none where one is refused."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  people:
    description:
      - The people. Names and uids differ, and ranges of subordinate ids do not overlap.
      - Where one of them is refused nothing is done for anybody, because who owns what would not be certain.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Login name.
        type: str
        required: true
      uid:
        description: User id, 1000 or more.
        type: int
        required: true
      subid_start:
        description: First subordinate id.
        type: int
        default: 0
      subid_count:
        description: Number of subordinate ids; V(0) where the person has none.
        type: int
        default: 0
"""

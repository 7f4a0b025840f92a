"""gpuadmin.node.refusals: people to whom storage hosts refuse a home, parsed before nodes get it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpuadmin.node.plugins.plugin_utils.heard import refusals

DOCUMENTATION = r"""
name: refusals
short_description: Whom storage hosts refuse a home
version_added: "0.1.0"
description:
  - Returns names and reasons from the results of M(gpuadmin.node.homes). Without what is not a login name, or not text.
options:
  _input:
    description: The registered results, one for each storage host that answered.
    type: list
    elements: dict
    required: true
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Show it
  ansible.builtin.debug:
    msg: "{{ [__homes] | gpuadmin.node.refusals }}"
"""

RETURN = r"""
_value:
  description: For each person C(name) and C(reason).
  type: list
  elements: dict
"""


class FilterModule:
    """Its one filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"refusals": refusals}

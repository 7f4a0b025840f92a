"""gpuadmin.node.ssh_key: one host's public key, parsed before another host gets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpuadmin.node.plugins.plugin_utils.heard import ssh_key

DOCUMENTATION = r"""
name: ssh_key
short_description: The one Ed25519 key of a public key file
version_added: "0.1.0"
description:
  - Returns the key's type and the key, made again from its parts; comment, options and further lines never get through.
  - Fails where the text is anything but one line with one key of type ssh-ed25519.
options:
  _input:
    description: The text of a public key file.
    type: str
    required: true
author:
  - The gpuadmin authors
"""

EXAMPLES = r"""
- name: Show it
  ansible.builtin.debug:
    msg: "{{ __key.content | b64decode | gpuadmin.node.ssh_key }}"
"""

RETURN = r"""
_value:
  description: The key's type and the key.
  type: str
"""


def _filter(text: Any) -> str:
    try:
        return ssh_key(str(text))
    except ValueError as error:
        raise AnsibleFilterError(
            f"{error}; delete it and its private key there, and provision the host again"
        ) from error


class FilterModule:
    """Its one filter."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {"ssh_key": _filter}

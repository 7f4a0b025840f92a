"""The host of the second copies."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  remote:
    description: The host of the second copies; none for no such host.
    type: dict
    suboptions:
      host:
        description: Its name in the inventory.
        type: str
        required: true
      address:
        description: Its address.
        type: str
        required: true
      port:
        description: The port of its ssh server.
        type: int
        default: 22
      key:
        description: The private key on this host.
        type: path
        required: true
      known_hosts:
        description: The file on this host that holds the other host's key.
        type: path
        required: true
      source:
        description: The address that this host calls from. The key is bound to it elsewhere; here it is not used.
        type: str
"""

"""What several modules take alike. Their documentation is in plugins/doc_fragments; a test holds both together."""

from __future__ import annotations

import json
from typing import Any

from . import paths
from .errors import NodeError
from .ship import PACKAGE

# People of whom each is checked by itself: Ansible, which would refuse the whole call, is not told of what is in it.
# One text, because Ansible walks a structure several times for each host (docs/decisions/0075); `each` reads it.
EACH: dict[str, Any] = {"type": "json", "default": "[]"}
BACKUPS: dict[str, Any] = {"directory": {"type": "path", "required": True}}
HOMES: dict[str, Any] = {"root": {"type": "path", "required": True}, "mountpoint": {"type": "path"}}
PEOPLE: dict[str, Any] = {
    "people": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "uid": {"type": "int", "required": True},
            "subid_start": {"type": "int", "default": 0},
            "subid_count": {"type": "int", "default": 0},
        },
    }
}
UIDS: dict[str, Any] = {"uid_first": {"type": "int", "required": True}, "uid_last": {"type": "int", "required": True}}
REMOTE: dict[str, Any] = {
    "remote": {
        "type": "dict",
        "options": {
            "host": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "default": 22},
            "key": {"type": "path", "required": True, "no_log": False},  # where it is, not what it is
            "known_hosts": {"type": "path", "required": True},
            "source": {"type": "str"},
        },
    }
}
# Directories on the controller, which the action plugin of gpuadmin.node.files expands.
SOURCE: dict[str, Any] = {
    "source": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "path", "required": True},
            "target": {"type": "path", "required": True},
            "patterns": {"type": "list", "elements": "str", "default": ["**/*"]},
            "mode": {"type": "str", "default": "0644"},
            "template": {"type": "bool", "default": False},
            "exclusive": {"type": "bool", "default": False},
            "show_diff": {"type": "bool", "default": True},
        },
    }
}
STATE: dict[str, Any] = {"state_directory": {"type": "path", "default": paths.STATE}}
UNIT: dict[str, Any] = {
    "code": {"type": "path", "default": f"{paths.STATE}/lib/{PACKAGE}"},
    "python": {"type": "path", "default": "/usr/bin/python3"},
}
# A node's place in a chain of relays: addresses, empty at its ends.
LINK: dict[str, Any] = {
    "link": {
        "type": "dict",
        "options": {"port": {"type": "int"}, "previous": {"type": "str"}, "next": {"type": "str"}},
    }
}


def each(option: str, text: str) -> list[dict[str, object]]:
    """Given an argument of kind EACH, return its entries, unchecked. Raises NodeError for no list of mappings."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise NodeError(f"{option} is not JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NodeError(f"{option} is no list of mappings")
    return found

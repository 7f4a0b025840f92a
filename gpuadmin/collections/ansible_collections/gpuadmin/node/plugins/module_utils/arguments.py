"""What several modules take alike. Their documentation is in plugins/doc_fragments; a test holds both together."""

from __future__ import annotations

from typing import Any

from . import paths
from .ship import PACKAGE

# People of whom each is checked by itself: Ansible, which would refuse the whole call, is not told of what is in it.
EACH: dict[str, Any] = {"type": "list", "elements": "dict", "default": []}
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

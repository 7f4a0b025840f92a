"""All parts of the look, each in a process of its own with a deadline: a file server that is away hides one part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import look_gently, short
from ansible_collections.gpuadmin.node.plugins.module_utils.each import Failed
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from . import accounts, homes, machine, used

SECONDS = 20.0  # the whole look

Part = Callable[[Place], object]
PARTS: Mapping[str, Part] = {
    "system": machine.system,
    "accounts": accounts.accounts,
    "groups": accounts.groups,
    "subids": accounts.subids,
    "directory": accounts.directory,
    "homes": homes.homes,
    "keys": homes.keys,
    "used": used.used,
    "file_systems": machine.file_systems,
    "exports": machine.exports,
    "docker": machine.docker,
    "gpus": machine.gpus,
    "services": machine.services,
    "sudo": machine.sudo,
    "sshd": machine.sshd,
    "root": machine.root,
}


def collect(place: Place, *, seconds: float = SECONDS, chosen: Mapping[str, Part] | None = None) -> dict[str, Any]:
    """Part → what it told, or None; ``unknown``: part → why."""
    parts = PARTS if chosen is None else chosen
    answer: dict[str, Any] = {"unknown": {}}
    for name, result in look_gently(parts, place, seconds, at_once=4):
        if isinstance(result, Failed):
            answer[name] = None
            answer["unknown"][name] = short(result.why)
        else:
            answer[name] = result
    return answer

"""All parts of the look, each in a process of its own with a deadline: a file server that is away hides one part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..diagnosis.subject import GENTLE, look_at, short
from ..each import Failed, each
from ..privileges.place import Place
from . import accounts, homes, machine

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
    looked = each(
        partial(look_at, parts=parts, of=place, nice=GENTLE),
        list(parts),
        4,  # people compute here meanwhile
        seconds,  # guard: a part of a look that hangs is unknown, and no other is -> 60 * seconds
        grace=0,
    )
    for name, result in looked:
        if isinstance(result, Failed):
            answer[name] = None
            answer["unknown"][name] = short(result.why)
        else:
            answer[name] = result
    return answer

"""All parts of the look, each in a process of its own with a deadline: a file server that is away hides one part."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..diagnosis.subject import confine, short
from ..each import Failed, each
from ..errors import NodeError, in_words
from ..privileges.place import Place
from . import accounts, homes, machine

SECONDS = 20.0  # the whole look
_GENTLE = 10  # nice(2): people's work comes first

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
        partial(_look, parts=parts, place=place),
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


def _look(name: str, *, parts: Mapping[str, Part], place: Place) -> object:
    confine()
    os.chdir("/")
    os.nice(_GENTLE)
    try:
        return parts[name](place)
    except OSError as error:  # not even a full disk ends the other parts
        raise NodeError(in_words(error)) from None

"""What is deleted in units of its own: functions of what JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import people
from . import homes, leftovers, scratch


def empty_trash(arguments: Mapping[str, Any]) -> object:
    return {name: done.as_dict() for name, done in homes.empty_trash(homes.Request(**arguments)).items()}


def wipe_scratch(arguments: Mapping[str, Any]) -> object:
    request = scratch.Request(arguments["items"], arguments["directories"], people.parse(arguments["people"]))
    plan, done = scratch.wipe(request)
    return {
        "operations": plan.operations,
        "conflicts": plan.conflicts,
        "report": plan.report(),
        "done": {path: one.as_dict() for path, one in done.items()},
    }


def clear_leftovers(arguments: Mapping[str, Any]) -> object:
    return leftovers.clear(leftovers.Request(**arguments))

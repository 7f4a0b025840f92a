"""What is deleted in units of its own: functions of an order, as JSON holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.common.records.wipes import WipeHomes, WipeScratch

from ..documents import parse
from . import homes, scratch


def empty_trash(arguments: Mapping[str, Any]) -> object:
    return homes.empty_trash(parse(WipeHomes, arguments, "order"))


def wipe_scratch(arguments: Mapping[str, Any]) -> object:
    plan, done = scratch.wipe(scratch.build_request(parse(WipeScratch, arguments, "order")))
    return {"operations": plan.operations, "conflicts": plan.conflicts, "report": plan.report(), "done": done}

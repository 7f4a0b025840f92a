"""What is deleted in units of its own: functions of an order."""

from __future__ import annotations

from gpuadmin.common.records.wipes import WipeHomes, WipeScratch

from . import homes, scratch


def empty_trash(order: WipeHomes) -> object:
    return homes.empty_trash(order)


def wipe_scratch(order: WipeScratch) -> object:
    plan, done = scratch.wipe(scratch.build_request(order))
    return {"operations": plan.operations, "conflicts": plan.conflicts, "report": plan.report(), "done": done}

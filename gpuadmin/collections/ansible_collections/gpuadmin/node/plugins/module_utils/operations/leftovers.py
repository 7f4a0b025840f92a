"""gpuadmin.node.leftovers: what a wipe left because no backup had it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuadmin.common.records.wipes import ClearLeftovers as Document

from .. import background
from ..answer import Answer
from ..wipe import leftovers
from ..wipe.jobs import clear_leftovers

EACH = "cleared"


def operate(document: Document, check: bool) -> Answer:
    found = leftovers.observe(document)
    cleared: dict[str, Any] = {}
    if (
        found
        # guard: check mode clears no leftovers
        and not check
    ):
        order = replace(document, only=[one.name for one in found])
        cleared = background.perform("clear-leftovers", clear_leftovers, order)
    problems = [f"{name}: {word}" for name, one in cleared.items() for word in one["words"]]
    kept = [f"{name}: {', '.join(one['words'])}" for name, one in cleared.items() if one["archive"] is None]
    operations = [one.operation for one in found if cleared.get(one.name, {}).get("archive", "") is not None]
    return Answer(operations, {"cleared": cleared, "problems": problems}, kept)

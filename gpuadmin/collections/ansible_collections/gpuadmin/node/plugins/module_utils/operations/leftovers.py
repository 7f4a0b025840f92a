"""gpuadmin.node.leftovers: what a wipe left because no backup had it."""

from __future__ import annotations

from gpuadmin.common.records.wipes import ClearLeftovers as Document

from ..answer import Answer
from ..wipe import leftovers

EACH = "cleared"


def operate(document: Document, check: bool) -> Answer:
    found = leftovers.observe(document)
    # guard: check mode clears no leftovers -> leftovers.clear(document)
    cleared = {} if check else leftovers.clear(document)
    kept = [f"{name}: {one.problem}" for name, one in cleared.items() if one.problem is not None]
    operations = [one.operation for one in found if one.name not in cleared or cleared[one.name].attic is not None]
    return Answer(operations, {"cleared": cleared, "problems": kept}, kept)

"""gpuadmin.node.wipe_scratch: wiping what people leave on a node."""

from __future__ import annotations

from typing import Any

from gpuadmin.common.records.wipes import WipeScratch as Document

from .. import background
from ..answer import Answer
from ..wipe import scratch
from ..wipe.jobs import wipe_scratch

EACH = "scratch"


def operate(document: Document, check: bool) -> Answer:
    if check:  # guard: check mode wipes no scratch
        return Answer.of(scratch.observe_and_compute(scratch.build_request(document)), deleted={})
    done: Any = background.perform("wipe-scratch", wipe_scratch, document)
    return Answer(done["operations"], {**done["report"], "deleted": done["done"]}, done["conflicts"])

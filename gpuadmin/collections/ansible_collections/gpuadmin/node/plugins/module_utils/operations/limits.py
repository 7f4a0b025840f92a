"""gpuadmin.node.limits: how much of a node one person gets."""

from __future__ import annotations

from gpuadmin.common.records.limits import NodeLimits as Document

from ..answer import Answer
from ..limits import applying
from ..limits.applying import Places

#: A task of this role need not name a field that the role has a variable for.
ROLE = "limits"


def operate(document: Document, check: bool, places: Places | None = None) -> Answer:
    where = places or Places()
    wanted = document if document.enabled else None
    recorded = applying.record(wanted, where, check)  # first: the next boot finishes what a power cut interrupts
    outcome = applying.apply(where, wanted, check=check, given=True)
    done = outcome.done or ["what the next boot applies"] * recorded
    missing = applying.missing(where) if document.enabled else []
    words = f"cgroup v2 of this kernel has no controller {', '.join(missing)}: people's use of that is not limited here"
    return Answer(done, {"problems": [words] if missing else []}, outcome.problems)

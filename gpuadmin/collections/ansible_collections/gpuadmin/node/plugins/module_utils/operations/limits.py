"""gpuadmin.node.limits: how much of a node one person gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ..answer import Answer
from ..limits import applying
from ..limits.applying import OwnBounds, Places, Wanted

#: A task of this role need not name a field that the role has a variable for.
ROLE = "limits"


@dataclass(frozen=True)
class Document:
    """Limit what one person may take of a node.

    Records the limits in the node's state, writes them where systemd reads them until the next boot, and brings them
    into force for what runs. Then it reads in the kernel whether they are; the module fails where they are not.
    """

    #: False: nobody is limited, and what was written goes.
    enabled: bool
    #: Memory, swap and tasks of one person: a share of the node's (``80%``), an amount, or ``unlimited``.
    memory: str
    swap: str
    tasks: str
    #: At most so many processors.
    processors: str
    #: How processors are shared.
    processor_weight: int
    #: Limits of certain people; the later ones win.
    people: Sequence[OwnBounds] = ()
    #: The account that nothing limits, beside root.
    admin: Optional[str] = None


def operate(document: Document, check: bool, places: Places | None = None) -> Answer:
    where = places or Places()
    wanted = None
    if document.enabled:
        wanted = Wanted(
            document.memory, document.swap, document.tasks, document.processors, document.processor_weight,
            document.people, document.admin,
        )  # fmt: skip
    recorded = applying.record(wanted, where, check)  # first: the next boot finishes what a power cut interrupts
    outcome = applying.apply(where, wanted, check=check, given=True)
    done = outcome.done or ["what the next boot applies"] * recorded
    missing = applying.missing(where) if document.enabled else []
    words = f"cgroup v2 of this kernel has no controller {', '.join(missing)}: people's use of that is not limited here"
    return Answer(done, {"problems": [words] if missing else []}, outcome.problems)

"""gpuadmin.node.gpu_mig: into which MIG devices the GPUs of a host are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from gpuadmin.common.records.gpus import Division

from ..answer import Answer
from ..gpus import mig, mig_devices
from ..gpus.mig_devices import Waiting
from ..logins import terminals
from ..metrics.dividing import Divider, Places

ROLE = "gpu_stack"


@dataclass(frozen=True)
class Document:
    """Divide GPUs into MIG devices, or make them whole again.

    Acts only on GPUs that nobody holds or was granted, and says of the others who does.
    """

    #: The profiles of each GPU, by its number; one that is not named is whole. Null: MIG stays as it is.
    mig: Optional[Mapping[str, Sequence[str]]] = None
    #: The GPUs to act on; without it all of them.
    mig_gpus: Optional[Sequence[int]] = None
    #: What is written once on the terminals of people who are waited for; empty where nobody is waited for.
    mig_waiting: str = ""


def operate(document: Document, check: bool, places: Places | None = None) -> Answer:
    if document.mig is None:
        return Answer(report={"mig": {"steps": []}})
    where = places or Places()
    divider = Divider({int(gpu): one for gpu, one in document.mig.items()}, where)
    first = divider.look(document.mig_gpus)
    steps = first if check else divider.run(document.mig_gpus)
    report = {"mig": {"steps": steps}}
    if check:
        differ = [_words(one) for one in steps if one.state != mig.AS_WANTED]
        return Answer(differ, report)
    acting = {one.gpu for one in first if one.state == mig.CHANGE}
    done = [f"GPU {one.gpu}: {one.words}" for one in steps if one.gpu in acting and one.state == mig.AS_WANTED]
    waiting = [one for one in steps if one.state == mig.WAITS]
    if document.mig_waiting:
        _tell(document.mig_waiting, divider, waiting, where.gate.run)
    left = [one for one in steps if one.state == mig.REFUSED or (one in waiting and not document.mig_waiting)]
    # guard: a GPU that was not divided is not said to be -> ()
    conflicts = [_words(one) for one in left]
    more = {"msg": "; ".join(map(_words, waiting))} if waiting and not left else {}
    return Answer(done, report, conflicts, more=more)


def _words(step: Division) -> str:
    if step.state == mig.WAITS:
        return f"GPU {step.gpu}: {step.words} waits: {'; '.join(step.people)}"
    return f"GPU {step.gpu}: {step.words}"


def _tell(message: str, divider: Divider, steps: Sequence[Division], run: str) -> None:
    """Tell people on their terminals, each once while somebody waits; and nobody is granted these GPUs meanwhile."""
    before = mig_devices.waiting(run).told
    people = {divider.uids[words] for one in steps for words in one.people} - {-1}
    for uid in sorted(people - {*before}):
        terminals.tell(message, uid=uid)
    mig_devices.wait(Waiting([divider.uuids[one.gpu] for one in steps], sorted({*before, *people})), run)

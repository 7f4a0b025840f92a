"""Operations on what the collector measures, and on GPUs by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from gpuadmin.common.records.gpus import Division, Ended, HeldGpu

from ..answer import Answer
from ..errors import NodeError
from ..gpus import mig
from ..gpus.mig import Waiting
from ..logins import terminals
from ..operation import operation
from .measured import report

# a look at what was measured waits for nothing of the others
if TYPE_CHECKING:
    from .dividing import Divider, Places


@dataclass(frozen=True)
class MeasuredOrder:
    """What the collector of a node has written just now.

    Reads what the collector has for the node exporter, and the host's load and memory.
    It changes nothing.
    """


@operation("measured", MeasuredOrder, looks=True)
def report_measured(document: MeasuredOrder, check: bool) -> Answer:
    try:
        return Answer(report=report())
    except ValueError as error:
        raise NodeError(str(error)) from error


@dataclass(frozen=True)
class Message:
    uid: int
    message: str


@dataclass(frozen=True)
class IdleOrder:
    """End what holds a GPU without using it or without a grant, or tell who holds it.

    Writes messages to the terminals of the people that are named.
    Ends the processes and containers of the people that are named that hold the GPUs that are named. What was
    decided is looked at again, process by process; where it is not so any more, or not known, it is left alone,
    and the answer says why.
    """

    #: Who reads what on their terminals.
    tell: Sequence[Message] = ()
    #: Whose hold on which GPU to end.
    stop: Sequence[HeldGpu] = ()


@operation("idle", IdleOrder)
def end_idle(document: IdleOrder, check: bool) -> Answer:
    from . import stopping

    notified = 0
    messages = (
        []
        if check  # guard: in check mode nobody is told that something is ended
        else document.tell
    )
    for one in messages:
        notified += terminals.tell(one.message, uid=one.uid)
    found: list[Ended] = []
    if document.stop:
        try:
            found = stopping.report(
                document.stop,
                check=check,  # guard: in check mode nothing idle is ended -> False
            )
        except ValueError as error:
            raise NodeError(str(error)) from error
    done = [one for one in found if one.status in ("stopped", "would stop")]
    return Answer(report={"idle": {"stopped": found, "terminals": notified}}, changed=bool(done))


@dataclass(frozen=True)
class MigOrder:
    """Divide GPUs into MIG devices, or make them whole again.

    Acts only on GPUs that nobody holds or was granted, and says of the others who does.
    """

    #: The profiles of each GPU, by its number; one that is not named is whole. Null: MIG stays as it is.
    mig: Optional[Mapping[str, Sequence[str]]] = None
    #: The GPUs to act on; without it all of them.
    mig_gpus: Optional[Sequence[int]] = None
    #: What is written once on the terminals of people who are waited for; empty where nobody is waited for.
    mig_waiting: str = ""


@operation("gpu_mig", MigOrder, role="gpu_stack")
def divide_gpus(document: MigOrder, check: bool, places: Places | None = None) -> Answer:
    from .dividing import Divider, Places

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
    before = mig.waiting(run).told
    people = {divider.uids[words] for one in steps for words in one.people} - {-1}
    for uid in sorted(people - {*before}):
        terminals.tell(message, uid=uid)
    mig.wait(Waiting([divider.uuids[one.gpu] for one in steps], sorted({*before, *people})), run)

"""gpuadmin.node.idle: what holds a GPU unused or without a grant is ended, or who holds it reads so on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.common.records.gpus import Ended, HeldGpu

from ..answer import Answer
from ..errors import NodeError
from ..logins import terminals
from ..metrics import stopping


@dataclass(frozen=True)
class Message:
    uid: int
    message: str


@dataclass(frozen=True)
class Document:
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


def operate(document: Document, check: bool) -> Answer:
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

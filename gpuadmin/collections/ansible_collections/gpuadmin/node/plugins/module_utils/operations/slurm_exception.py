"""gpuadmin.node.slurm_exception: GPUs of the queue for somebody out of turn; and jobs that end before their time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from ..answer import Answer
from ..errors import NodeError
from ..fields import quoted
from ..lookup import system_lookup
from ..slurm import exceptions, queue
from . import slurm_queue

ROLE = "slurm_controller"


@dataclass(frozen=True)
class Wanted:
    """As an admin asks for it. ``until``: seconds since 1970."""

    id: str
    user: str
    uid: int
    node: str
    gpus: int
    until: int
    who: str
    reason: str = ""


@dataclass(frozen=True)
class Document:
    """Have somebody's job start now, without limits and before all others, or say who is in its way; or cancel jobs.

    Nothing waits: what does not start is called off.
    """

    #: The exception to make. One of this id that is there is left as it is.
    exception: Optional[Wanted] = None
    #: Jobs to cancel. One that is not there has ended.
    end: Sequence[str] = ()


def operate(document: Document, check: bool) -> Answer:
    if not all(queue.JOB.match(one) for one in document.end):
        raise NodeError("these are not numbers of jobs")
    queue.alive()
    before = slurm_queue.report()["queue"]
    here = {one["id"] for one in before["jobs"]}
    ending = [one for one in document.end if one in here]
    done = [f"cancel job {one}" for one in ending]
    if ending and not check:
        queue.ask(("scancel", *ending))
    wanted = document.exception
    if wanted is not None and not any((one["exception"] or {}).get("id") == wanted.id for one in before["jobs"]):
        _check(wanted)
        done.append(f"give {wanted.user} {wanted.gpus} GPU{'' if wanted.gpus == 1 else 's'} of {wanted.node}")
        if not check:
            words = {"id": wanted.id, "who": wanted.who, "reason": wanted.reason}
            exceptions.make(wanted.uid, wanted.node, wanted.gpus, wanted.until, words)
    return Answer(done, slurm_queue.report())


def _check(wanted: Wanted) -> None:
    # guard: an exception is of whoever has the uid on this host
    if (system_lookup(wanted.user) or (None,))[0] != wanted.uid:
        raise NodeError(f"{quoted(wanted.user)} does not have the uid {wanted.uid} on this host: gpuadmin sync-users")
    if wanted.gpus < 1 or wanted.until <= time.time():
        raise NodeError("say how many GPUs, and until when")

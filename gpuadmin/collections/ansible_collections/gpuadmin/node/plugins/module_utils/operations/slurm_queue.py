"""gpuadmin.node.slurm_queue: who has GPUs of Slurm's, who waits for some, and which nodes take no job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..answer import Answer
from ..slurm import booking, exceptions, queue
from ..slurm.accounts import EXCEPTION

LOOKS = True


@dataclass(frozen=True)
class Document:
    """Ask slurmctld for its queue."""


def report() -> dict[str, Any]:
    """Jobs, each with why it waits in words, and of an admin's exception who made it and why; nodes; and
    reservations. Raises NodeError."""
    jobs, nodes = queue.ask_jobs(), queue.nodes(queue.ask(queue.NODES))
    for one in jobs:
        one["exception"] = exceptions.said(one["id"]) if one["qos"] == EXCEPTION else None
        one["why"] = queue.WHY[queue.code(one["reason"])].format(one["reason"]) if one["waits"] else ""
    reserved = [asdict(one) for one in booking.reservations()]
    return {"queue": {"jobs": jobs, "nodes": nodes, "reservations": reserved, "version": queue.version("slurmctld")}}


def operate(document: Document, check: bool) -> Answer:
    queue.alive()
    return Answer(report=report(), changed=False)

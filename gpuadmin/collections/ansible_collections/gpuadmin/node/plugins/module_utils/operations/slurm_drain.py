"""gpuadmin.node.slurm_drain: nodes that take no further jobs, and nodes that take jobs again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..errors import NodeError
from ..fields import quoted
from ..run import run
from ..slurm import queue
from . import slurm_queue

ROLE = "slurm_controller"


@dataclass(frozen=True)
class Wanted:
    """``resume``: they take jobs again. ``reason``: why they take none; everybody reads it."""

    nodes: Sequence[str]
    reason: str = ""
    resume: bool = False


@dataclass(frozen=True)
class Document:
    """Let nodes take no further jobs, or take jobs again. What runs there goes on."""

    drain: Wanted


def operate(document: Document, check: bool) -> Answer:
    wanted = document.drain
    if not wanted.resume and (not 0 < len(wanted.reason) <= queue.LONGEST or not wanted.reason.isprintable()):
        raise NodeError(f"why they take no jobs has to be said, in a line of at most {queue.LONGEST} characters")
    queue.alive()
    there = {one["name"]: one for one in queue.nodes(queue.ask(queue.NODES))}
    for name in wanted.nodes:
        # guard: only a node that Slurm has named is given to its programs
        if name not in there:
            raise NodeError(f"{quoted(name)} is no node of the queue")
    changing = [name for name in wanted.nodes if _differs(there[name], wanted)]
    if changing and not check:
        state = ["State=RESUME"] if wanted.resume else ["State=DRAIN", f"Reason={wanted.reason}"]
        run(["scontrol", "update", f"NodeName={','.join(changing)}", *state])
    done = [f"{name}: takes jobs again" if wanted.resume else f"{name}: takes no further job" for name in changing]
    return Answer(done, slurm_queue.report())


def _differs(node: Mapping[str, str], wanted: Wanted) -> bool:
    closed = node["state"].startswith(("drain", "down", "fail"))
    return closed if wanted.resume else not closed or node["reason"] != wanted.reason

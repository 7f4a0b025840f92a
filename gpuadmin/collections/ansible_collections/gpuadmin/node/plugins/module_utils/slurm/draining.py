"""Drains nodes of the queue, and lets them take jobs again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.waiting import FULL, PASSING, settled

from ..errors import NodeError
from ..fields import quoted
from ..run import run
from . import queue


@dataclass(frozen=True)
class Wanted:
    """The state that nodes get. ``resume``: they take jobs again. ``reason``: why they take none, for everybody.

    ``mark``: the beginning of reasons of a verb's, or of the node's own (health.py); nodes that others have drained, or
    that Slurm does not know, are left alone then. ``empty``: fail while jobs are on them. ``force``: go on beside jobs,
    and where Slurm's controller does not answer.
    """

    nodes: Sequence[str]
    reason: str = ""
    resume: bool = False
    mark: str = ""
    empty: bool = False
    force: bool = False


def bring(wanted: Wanted, *, check: bool, only: Sequence[str] = ()) -> list[str]:
    """Drain or resume the nodes that differ, and return them. ``only``: options of sinfo's. Raises NodeError."""
    reason = f"{wanted.mark} {wanted.reason}".strip()
    if not wanted.resume and (not 0 < len(reason) <= queue.LONGEST or not reason.isprintable()):
        raise NodeError(f"say why they take no jobs, in a line of at most {queue.LONGEST} characters")
    known = {one["name"]: one for one in queue.nodes(queue.ask((*queue.NODES, *only)))}
    for name in wanted.nodes:
        # guard: only a node that Slurm has named is given to its programs
        if name not in known and not wanted.mark:
            raise NodeError(f"{quoted(name)} is not a node of the queue")
    changing = [name for name in wanted.nodes if name in known and _differs(known[name], wanted, reason)]
    if changing and not check:
        state = ["State=RESUME"] if wanted.resume else ["State=DRAIN", f"Reason={reason}"]
        run(["scontrol", "update", f"NodeName={','.join(changing)}", *state])
    return changing


def _differs(node: Mapping[str, str], wanted: Wanted, reason: str) -> bool:
    # guard: a verb lets take jobs again only what it has drained itself
    if wanted.resume and not node["reason"].startswith(PASSING if wanted.mark == FULL else wanted.mark):
        return False
    # a node that does not answer comes back by itself while the verb is at work
    keep = bool(wanted.mark)  # guard: a verb does not drain once more what somebody has drained -> False
    return not settled(node, reason, resume=wanted.resume, keep=keep)

"""gpuadmin.node.slurm_drain: nodes that take no further jobs, and nodes that take jobs again."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.waiting import settled

from ..answer import Answer
from ..errors import NodeError
from ..fields import quoted
from ..run import run
from ..slurm import queue
from . import slurm_queue

ROLE = "slurm_controller"


@dataclass(frozen=True)
class Wanted:
    """``resume``: they take jobs again. ``reason``: why they take none; everybody reads it.

    ``mark``: a verb takes them away, and its reasons begin so. It leaves alone what others have drained, and what Slurm
    does not know. ``empty``: fail while jobs are there. ``force``: a verb that goes on beside jobs, and where Slurm's
    controller does not answer.
    """

    nodes: Sequence[str]
    reason: str = ""
    resume: bool = False
    mark: str = ""
    empty: bool = False
    force: bool = False


@dataclass(frozen=True)
class Document:
    """Let nodes take no further jobs, or take jobs again. What runs there goes on."""

    drain: Wanted


def operate(document: Document, check: bool) -> Answer:
    wanted = document.drain
    reason = f"{wanted.mark} {wanted.reason}".strip()
    if not wanted.resume and (not 0 < len(reason) <= queue.LONGEST or not reason.isprintable()):
        raise NodeError(f"say why they take no jobs, in a line of at most {queue.LONGEST} characters")
    if wanted.mark and shutil.which("scontrol") is None:
        return Answer()  # there is no queue on this host yet, so it starts no job
    try:
        queue.alive()
    except queue.AwayError:
        # guard: where Slurm's controller does not answer a node is taken away by force alone
        if not (wanted.mark and wanted.force):
            raise
        return Answer(more={"remarks": ["the queue does not answer: a job may start there meanwhile"]})
    there = {one["name"]: one for one in queue.nodes(queue.ask(queue.NODES))}
    for name in wanted.nodes:
        # guard: only a node that Slurm has named is given to its programs
        if name not in there and not wanted.mark:
            raise NodeError(f"{quoted(name)} is not a node of the queue")
    changing = [name for name in wanted.nodes if name in there and _differs(there[name], wanted, reason)]
    if changing and not check:
        state = ["State=RESUME"] if wanted.resume else ["State=DRAIN", f"Reason={reason}"]
        run(["scontrol", "update", f"NodeName={','.join(changing)}", *state])
    done = [f"{name}: takes jobs again" if wanted.resume else f"{name}: takes no further job" for name in changing]
    report = slurm_queue.report()
    jobs = [words for name in wanted.nodes for words in queue.on(report["queue"]["jobs"], name)]
    if wanted.empty and jobs and not wanted.force:
        in_use = f"in use by {', '.join(jobs)}"
        return Answer(done, report, problem=in_use, more={"progress": f"waits: {in_use}"})
    return Answer(done, report)


def _differs(node: Mapping[str, str], wanted: Wanted, reason: str) -> bool:
    # guard: a verb lets take jobs again only what it has drained itself
    if wanted.resume and not node["reason"].startswith(wanted.mark):
        return False
    # one that does not answer comes back by itself, in the middle of what the verb does
    keep = bool(wanted.mark)  # guard: a verb does not drain once more what somebody has drained -> False
    return not settled(node, reason, resume=wanted.resume, keep=keep)

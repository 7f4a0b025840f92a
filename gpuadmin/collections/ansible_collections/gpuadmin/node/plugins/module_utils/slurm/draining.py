"""Drains nodes of the queue, and lets them take jobs again; a node that is sick or full does so itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuadmin.common.waiting import FOR_NOW, FULL, PASSING, SICK, settled

from .. import health
from ..errors import NodeError, in_words
from ..fields import quoted
from ..gpus.gate import Places
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


def close(node: str, found: health.Health) -> str:
    """Have the queue send a node no job where it should take none, or jobs again. Returns why; empty: no reason."""
    # guard: a check of the site's own does not close a whole queue
    if found.lasting and _is_widespread(node, found):
        found = replace(found, sick=[one for one in found.sick if one.passes])
    wanted = _wanted(node, found)
    if wanted is None:
        return ""
    try:
        for name in bring(wanted, check=False, only=[f"--nodes={node}"]) if node else ():
            print(f"{name}: {wanted.reason or 'nothing is wrong any more'}")
    except (NodeError, OSError) as error:  # a controller that is away is asked again in a minute
        print(f"Error: {in_words(error)}")
    return "" if wanted.resume else f"{wanted.mark} {wanted.reason}"


def _is_widespread(node: str, found: health.Health) -> bool:
    """Whether nothing that lasts is wrong but what checks of the site's own say, each of which has closed half of the
    queue's nodes already: then it is broken, or what all nodes share. A queue that does not say has not."""
    if any(one not in found.own for one in found.lasting):
        return False
    checks = sorted({one.words.partition(":")[0] for one in found.lasting})
    try:
        nodes = {one["name"]: one["reason"] for one in queue.nodes(queue.ask(queue.NODES))}
    except NodeError:
        return False
    sick = [reason for name, reason in nodes.items() if name != node and reason.startswith(SICK)]
    for check in checks:
        closed = sum(f" {check}:" in reason for reason in sick)
        if not closed or 2 * closed < len(nodes):
            return False
    words = "; ".join(one.words for one in found.lasting)
    print(f"{node} stays open: {words}. Half of the nodes are closed for {', '.join(checks)}, which may be wrong")
    return True


def _wanted(node: str, found: health.Health) -> Wanted | None:
    """What a node is to be; None: as it is."""
    for mark, words in (
        (SICK, [one.words for one in found.lasting]),  # guard: a sick node takes no job -> []
        (FULL, list(found.full)),  # guard: a node whose disk is full takes no job -> []
        (FOR_NOW, [one.words for one in found.sick if one.passes]),
    ):
        if words:
            between, room = ", " if mark == FULL else "; ", queue.LONGEST - len(mark) - 1
            # the longest are cut first: each begins with its GPU or check, which others look for in a reason
            cut = (between.join(one[:most] for one in words) for most in range(room, len("GPU 15"), -1))
            many = f"{len(words)} problems, such as {words[0]}"  # GPU 1 is no beginning of GPU 15
            text = next((one for one in cut if len(one) <= room), many[:room])
            return Wanted([node], "".join(one if one.isprintable() else " " for one in text), mark=mark)
    # guard: a disk that is full again at once does not open and close a node each minute -> True
    return Wanted([node], resume=True, mark=FULL) if found.room else None


def main() -> int:
    """What slurmd runs each minute. 0 in any case: its log has the errors."""
    try:
        close(os.environ.get("SLURMD_NODENAME", ""), health.look_at_node(Places(), own=True))
    except (NodeError, OSError) as error:  # guard: a check that fails keeps no node from the queue
        print(f"Error: {in_words(error)}")
    return 0

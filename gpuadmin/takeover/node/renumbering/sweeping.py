"""The two phases over all trees of a host: each tree is changed, and then proved from the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from .ids import Mapping as Ids
from .journal import Journal, Plan
from .task import Tally


def run_phases(
    found: Journal,
    names: Sequence[str],
    sweep: Callable[[Plan, int, int, bool], Tally],
    renew: Callable[[int], None],
    finish: Callable[[int, Ids, Journal], None],
) -> tuple[list[Tally], Journal]:
    """Do what is left of both phases. Returns what each walk that changed did, and what is left for the next boot.

    ``sweep``: given a plan, a phase, the number of a tree and whether to change, walk once. ``renew`` writes a tree to
    the disk, and has the kernel forget what it knows of it. ``finish`` does what comes after a phase, and saves what it
    leaves. Raises NodeError with what cannot be told whose it is: then nothing that follows is done.
    """
    tallies = []
    for phase in (1, 2):
        stuck: dict[tuple[str, int], str] = {}
        failures: list[str] = []
        plan, uids = found.plan, Ids(found.plan.uid.select(phase))
        for number, name in enumerate(names) if uids.moves or plan.gid.select(phase) else ():
            tally = sweep(plan, phase, number, True)
            tallies.append(tally)
            renew(number)  # guard: a tree is on the disk before it counts as done
            seen = sweep(plan, phase, number, False)
            for one in (tally, seen):
                for key, words in one.stuck.items():
                    stuck.setdefault(key, f"{name}: {words}")
                # guard: what is not known to have changed hands keeps all out
                failures += one.words if one.failed else ()
            # guard: what has become read-only since the look keeps no old ids within reach
            failures += [f"{name}: people can reach {one}, which is read-only" for one in seen.within_reach]
        if failures:  # guard: no second phase and no account before the first phase is whole
            words = "; ".join(failures[:10])
            raise NodeError(f"not everything could change hands, and their accounts stay closed: {words}")
        found = found.leave(phase, stuck)
        finish(phase, uids, found)
    return tallies, found

"""What becomes what on a host, and how its trees are walked: changed once, and then proved from the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from .ids import TEMPORARY, Move, Phases, phases
from .ids import Mapping as Ids
from .journal import Journal, Renumbering
from .task import Tally, Task

MOST_WORKERS = 16

#: Given phase, number of the tree, and whether to change: one walk.
Sweep = Callable[[int, int, bool], Tally]


@dataclass(frozen=True)
class Plan:
    """What becomes what, by uid and gid."""

    uid: Phases
    gid: Phases

    @classmethod
    def of(cls, people: Sequence[Renumbering]) -> Plan:
        whole = Journal(tuple(people))
        return cls(phases(whole.moves("uid"), "uid"), phases(whole.moves("gid"), "gid"))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The phases that there are."""
        return (1, 2) if self.uid.second or self.gid.second else (1,)

    def uids(self, phase: int) -> Ids:
        return Ids(self.uid.first if phase == 1 else self.uid.second)

    def task(self, phase: int, tree: str, apply: bool) -> Task:
        gids = Ids(self.gid.first if phase == 1 else self.gid.second)
        if apply:
            return Task(phase, tree, self.uids(phase), gids, True)
        taken = [[Move(TEMPORARY.start, TEMPORARY.start, len(TEMPORARY)), *_new(kind)] for kind in (self.uid, self.gid)]
        return Task(phase, tree, self.uids(phase), gids, False, Ids(taken[0]), Ids(taken[1]))


def _new(kind: Phases) -> list[Move]:
    """The ids that somebody gets, and nobody of the plan has now."""
    old = list(kind.first)
    got = [one for one in (*kind.first, *kind.second) if one.new < TEMPORARY.start]
    return [
        Move(one.new, one.new, one.count) for one in got if not any(other.meets(one.new, one.count) for other in old)
    ]


def workers() -> int:
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def drive(
    names: Sequence[str],
    numbers: Sequence[int],
    sweep: Sweep,
    done: Callable[[], set[str]],
    mark: Callable[[str], None],
    rename: Callable[[int], object],
    after: Sequence[tuple[str, Callable[[], None]]],
    renew: Callable[[int], None],
) -> list[Tally]:
    """Each phase over all trees, then the other steps; none that is done again. A phase is done when all trees are.

    ``renew`` writes a tree to the disk, and has the kernel forget what it knows of it. A phase is over in a tree when
    the look after that finds nothing left. ``rename`` changes ids in names of files. Raises NodeError with what could
    not be changed; then nothing that follows is done.
    """
    tallies = []
    for phase in numbers:
        if f"{phase} names" in done():  # guard: a log that has its name is not renamed again
            continue
        failures: list[str] = []
        # trees that an earlier boot has been through, too: whoever is not of the plan was let in since
        for number, name in enumerate(names):
            tally = sweep(phase, number, True)
            tallies.append(tally)
            if tally.failed:  # guard: an error is a failure, whatever memory says of the owner afterwards
                failures += tally.words
                continue
            renew(number)  # guard: a tree is on the disk before it counts as done
            found = sweep(phase, number, False)
            left = sum(entries for ids in (found.uids, found.gids) for entries, _ in ids.values()) + found.acls
            if left or found.failed:  # guard: what the disk does not have is not done
                failures += found.words or [f"{name}: {left} entries still have the old ids"]
            # guard: what has become read-only since the look keeps no old ids within reach
            failures += [f"{name}: people can reach {one}, which is read-only" for one in found.within_reach]
        if failures:  # guard: no second phase and no account before the first phase is whole
            raise NodeError(
                "not everything could change hands, and their accounts stay closed: " + "; ".join(failures[:10])
            )
        rename(phase)
        mark(f"{phase} names")
    for step, act in after:
        if step not in done():
            act()
            mark(step)
    return tallies

"""What becomes what on a host, and how its trees are walked until nothing is left to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuadmin.common.text import counted

from ..errors import NodeError
from . import journal, trees
from .crawl import crawl
from .ids import TEMPORARY, Move, Phases, phases
from .ids import Mapping as Ids
from .journal import Journal, Renumbering
from .special import Specials
from .task import Tally, Task

MOST_WORKERS = 16
PASSES = 6  # over one tree in one phase: the last one must find nothing to do

#: Given phase, number of the tree, and whether a whole walk has just been there: one walk, which changes.
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

    def task(self, phase: int, tree: str, apply: bool, again: bool = False) -> Task:
        uid, gid = (self.uid.first, self.gid.first) if phase == 1 else (self.uid.second, self.gid.second)
        if apply:
            theirs = [[*kind.first, *kind.second] for kind in (self.uid, self.gid)]
            quiet = [
                Ids({*moves, *(Move(one.new, one.new, one.count) for one in moves)}) for moves in map(_unique, theirs)
            ]
            return Task(phase, tree, Ids(uid), Ids(gid), True, quiet_uids=quiet[0], quiet_gids=quiet[1], again=again)
        taken = [[Move(TEMPORARY.start, TEMPORARY.start, len(TEMPORARY)), *_new(kind)] for kind in (self.uid, self.gid)]
        return Task(phase, tree, Ids(uid), Ids(gid), False, Ids(taken[0]), Ids(taken[1]))


def _unique(moves: Sequence[Move]) -> list[Move]:
    return list({one.old: one for one in moves}.values())


def _new(kind: Phases) -> list[Move]:
    """The ids that somebody gets, and nobody of the plan has now."""
    old = list(kind.first)
    got = [one for one in (*kind.first, *kind.second) if one.new < TEMPORARY.start]
    return [
        Move(one.new, one.new, one.count) for one in got if not any(other.meets(one.new, one.count) for other in old)
    ]


def workers() -> int:
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def sweeps(
    plan: Plan, found: Sequence[trees.Tree], handles: Sequence[int], state: str
) -> Callable[[int, int, bool, bool], Tally]:
    """How a host's trees are walked: by phase, number, whether it is walked again, and whether to change."""

    def sweep(phase: int, number: int, again: bool, apply: bool) -> Tally:
        task = plan.task(phase, found[number].key, apply, again)
        specials = journal.specials(state, phase, found[number].key) if apply else Specials()
        lock = os.open(
            os.path.join(journal.directory(state), "links"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        ) if apply else -1  # fmt: skip
        try:
            tally = crawl(handles[number], task, specials, workers=workers(), lock=lock)
            known = {(one.path, one.inode) for several in specials.known.values() for one in several}
            if apply and not tally.changed and not tally.failed and tally.kept < len(known):
                lost = counted(len(known) - tally.kept, "file")
                words = f"{lost} with a setuid bit, a capability or chattr's flags: not found again"
                tally.words.append(f"{words}; {journal.directory(state)}/specials says what they had")
            return tally
        finally:
            for one in (specials.handle, lock):
                if one >= 0:
                    os.close(one)

    return sweep


def drive(
    names: Sequence[str],
    numbers: Sequence[int],
    sweep: Sweep,
    done: Callable[[], set[str]],
    mark: Callable[[str], None],
    after: Sequence[tuple[str, Callable[[], None]]],
    sync: Callable[[int], None],
) -> list[Tally]:
    """Each phase over all trees, then the other steps; each until it is done, none that is done again.

    A tree has had a phase when a whole walk found nothing to do, after all before it reached the disk. Raises NodeError
    with what could not be changed: nothing that follows is done then.
    """
    tallies = []
    for phase in numbers:
        failures: list[str] = []
        for number, name in enumerate(names):
            step = f"{phase} {name}"
            if step in done():
                continue
            again = False
            for last in (*[False] * (PASSES - 1), True):
                tally = sweep(phase, number, again)
                again = not tally.failed and not tally.moved
                tallies.append(tally)
                # who keeps moving directories does not keep people out for ever: the last walk is reported, and counts
                if not tally.changed and not tally.failed and (last or not tally.moved):
                    sync(number)  # guard: a tree is on the disk before it counts as done
                    mark(step)
                    break
            else:
                failures += tally.words or [f"{name}: changes while it is looked at"]
        if failures:  # guard: no second phase and no account before the first phase is whole
            raise NodeError(
                "not everything could change hands, and their accounts stay closed: " + "; ".join(failures[:10])
            )
    for step, act in after:
        if step not in done():
            act()
            mark(step)
    return tallies

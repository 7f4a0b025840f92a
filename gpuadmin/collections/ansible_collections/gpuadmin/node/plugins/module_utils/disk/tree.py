"""What is below one directory: bytes on disk and inodes, and its largest directories.

The tree was made by somebody else (safe_walk.py). Nothing in it is opened but directories, and no mount is entered.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ..budget import Budget, TooMuchAtOnce
from ..errors import NodeError, in_words
from ..safe_walk import Entry, same_mount, walk
from .shares import NOBODY, Shares, alone

DEEPEST = 4  # levels of directories that keep their own size
MOST = 20  # directories of one person
MOST_PEOPLE = 4096  # in one tree
MOST_OWNERS = 1 << 17  # uids of one tree: more than one person has
MOST_UNOWNED = 1000
LONGEST = 1024  # bytes of a path that is kept
_LINK = bytes(192)  # as much as Python takes to remember an inode, less what a budget adds
ALL = -1  # who owns all of it, if files are not asked for their owner


@dataclass
class Size:
    """``bytes`` on disk: what stat(2) says, so that a hole takes nothing, and what shares blocks counts for each."""

    bytes: int = 0
    inodes: int = 0

    def add(self, other: Size) -> None:
        self.bytes += other.bytes
        self.inodes += other.inodes


@dataclass
class Used:
    """One person's part. ``largest``: (path, bytes, inodes), the largest first; a size has what is below in it.

    ``problem``: why theirs alone is only a part, or empty.
    """

    size: Size = field(default_factory=Size)
    largest: list[tuple[str, int, int]] = field(default_factory=list)
    problem: str = ""


@dataclass
class Tree:
    """``people``: by uid, or by ALL. ``problem``: why it is only a part of it, or empty.

    ``volumes``: there are subvolumes below, whose changes the subvolume above does not know. ``unowned``: uids of files
    that are nobody's.
    """

    people: dict[int, Used] = field(default_factory=dict)
    problem: str = ""
    volumes: bool = False
    unowned: frozenset[int] = frozenset()


def measure(
    top: int,
    budget: Budget,
    *,
    shares: Shares | None = None,
    leave_out: Callable[[bytes], bool] = lambda path: False,
    whose: Callable[[int], int] = alone,
) -> Tree:
    """Measure what is below the open directory ``top``, and itself.

    ``whose(uid)``: as ``Shares`` has it. ``shares``: by the owner of each file, and who exceeds their share is measured
    in part. ``leave_out(path)``: directories that are not entered, and do not count. A tree that exceeds the budget, or
    is moved about while it is looked at, is measured in part, and says so; where there are shares, that is the owner's
    of what it happened to.
    """
    found = _Sizes(shares, whose)
    facts = os.fstat(top)
    found.count(facts)

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        if shares is not None and shares.over(entry.facts):
            return False
        return (
            not leave_out(entry.path)  # guard: another place below is not counted twice
            and same_mount(entry, parent)  # guard: what is mounted in a home is not entered
        )

    def skipped(entry: Entry, why: str) -> None:
        found.part(entry.facts, f"something in it {why}")

    try:
        enough = (
            None
            if shares is None
            else shares.over  # guard: what is left of a directory whose owner has too much costs nobody time
        )
        for entry in walk(
            top,
            enter,
            leaving=True,
            budget=budget,
            skip=skipped,
            again=True,  # guard: a mount or a move of one person's ends nobody else's measuring
            enough=enough,
        ):
            if entry.leaving:
                found.leave(entry.path)
                continue
            found.within(entry.path)
            if (
                (entry.is_directory and leave_out(entry.path))
                # guard: who fills a disk of many is counted in part, alone
                or (shares and not shares.spend(entry.facts))
            ):
                continue
            if entry.is_directory:
                found.enter(entry.path)
                found.volumes = found.volumes or entry.facts.st_dev != facts.st_dev
            elif entry.facts.st_nlink > 1 and not found.first(entry.facts, budget):
                continue
            found.count(entry.facts)
    except (NodeError, OSError) as error:  # guard: what is too much or moves meanwhile is a part
        found.problem = in_words(error)
    return found.result()


class _Sizes:
    """Sizes of the directories on the way down. Below DEEPEST all counts for the directory at that level."""

    def __init__(self, shares: Shares | None, whose: Callable[[int], int]) -> None:
        self._shares, self._whose = shares, whose
        self._owners: set[int] = set()
        self._unowned: set[int] = set()
        self._levels: list[tuple[bytes, dict[int, Size]]] = [(b"", {})]
        self._largest: dict[int, list[tuple[int, int, str]]] = {}
        self._seen: set[tuple[int, int]] = set()
        self.problem = ""
        self.volumes = False

    def enter(self, path: bytes) -> None:
        """A directory: what is counted from now on is below it."""
        self.within(path)
        if len(self._levels) <= DEEPEST:
            self._levels.append((path, {}))

    def within(self, path: bytes) -> None:
        """What comes next is there: directories that it is not below are left, also those that were moved away."""
        while self._levels[-1][0] and not path.startswith(self._levels[-1][0] + b"/"):
            self._up()

    def leave(self, path: bytes) -> None:
        while self._levels[-1][0] and (self._levels[-1][0] + b"/").startswith(path + b"/"):
            self._up()

    def _up(self) -> None:
        path, people = self._levels.pop()
        above = self._levels[-1][1]
        for uid, size in people.items():
            above.setdefault(uid, Size()).add(size)
            if len(path) <= LONGEST:
                largest = self._largest.setdefault(uid, [])
                heapq.heappush(largest, (size.bytes, size.inodes, os.fsdecode(path)))
                if len(largest) > MOST:
                    heapq.heappop(largest)

    def first(self, facts: os.stat_result, budget: Budget) -> bool:
        """Whether a file of several names is met for the first time, as far as that can be remembered."""
        key = facts.st_dev, facts.st_ino
        if key in self._seen or (self._shares is not None and not self._shares.link(facts)):
            return False
        try:
            budget.hold(_LINK)
        except TooMuchAtOnce as error:
            budget.release(_LINK)
            self.part(facts, str(error))
            return False
        self._seen.add(key)  # guard: a file of several names counts once
        return True

    def part(self, facts: os.stat_result, why: str) -> None:
        """More than is counted: of the owner of what it happened to, or of all."""
        if self._shares is not None:
            self._shares.part(facts, why)
        else:
            self.problem = self.problem or why

    def count(self, facts: os.stat_result) -> None:
        self._own(facts.st_uid)
        uid = ALL if self._shares is None else self._shares.person(facts.st_uid)
        people = self._levels[-1][1]
        if uid not in people and len(people) >= MOST_PEOPLE:
            self.problem = f"has files of more than {MOST_PEOPLE} people"
            return
        size = people.setdefault(uid, Size())
        size.bytes += facts.st_blocks * 512
        size.inodes += 1

    def _own(self, uid: int) -> None:
        if uid not in self._owners and len(self._owners) < MOST_OWNERS:
            self._owners.add(uid)
            if self._whose(uid) == NOBODY and len(self._unowned) < MOST_UNOWNED:
                self._unowned.add(uid)

    def result(self) -> Tree:
        while len(self._levels) > 1:
            self._up()
        people = {}
        problems = {} if self._shares is None else self._shares.problems
        sizes = self._levels[0][1]
        for uid in [*sizes, *(one for one in problems if one not in sizes)]:
            largest = sorted(self._largest.get(uid, ()), reverse=True)
            paths = [(path, taken, inodes) for taken, inodes, path in largest]
            people[uid] = Used(sizes.get(uid, Size()), paths, problems.get(uid, ""))
        return Tree(people, self.problem, self.volumes, frozenset(self._unowned))

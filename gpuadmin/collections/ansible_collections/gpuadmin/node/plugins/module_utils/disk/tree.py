"""What is below one directory: bytes on disk and inodes, and its largest directories.

The tree was made by somebody else (descend.py). Nothing in it is opened but directories, and no mount is entered.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ..budget import Budget
from ..descend import Entry, same_mount, walk
from ..errors import NodeError, in_words

DEEPEST = 4  # levels of directories of which a size of their own is kept
MOST = 20  # directories of one person
MOST_PEOPLE = 4096  # in one tree
LONGEST = 1024  # bytes of a path that is kept
_LINK = bytes(192)  # as much as Python takes to remember an inode, less what a budget adds
ALL = -1  # whose all of it is, where it is not asked whose a file is


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
    """One person's part. ``largest``: (path, bytes, inodes), the largest first; a size has what is below in it."""

    size: Size = field(default_factory=Size)
    largest: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass
class Tree:
    """``people``: by uid, or by ALL. ``problem``: why it is only a part of it, or empty.

    ``volumes``: there are subvolumes below, whose changes the subvolume above does not know.
    """

    people: dict[int, Used] = field(default_factory=dict)
    problem: str = ""
    volumes: bool = False


def measure(
    top: int, budget: Budget, *, by_owner: bool = False, leave_out: Callable[[bytes], bool] = lambda path: False
) -> Tree:
    """Measure what is below the open directory ``top``, and itself.

    ``by_owner``: by the uid of each file. ``leave_out(path)``: directories that are not entered, and do not count.
    A tree that exceeds the budget, or is moved about while it is looked at, is measured in part, and says so.
    """
    found = _Sizes(by_owner)
    facts = os.fstat(top)
    found.count(facts)

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        return not leave_out(entry.path) and same_mount(entry, parent)

    def skipped(_entry: Entry, why: str) -> None:
        found.problem = found.problem or f"something in it {why}"

    try:
        for entry in walk(top, enter, leaving=True, budget=budget, skip=skipped, again=True):
            if entry.leaving:
                found.leave(entry.path)
                continue
            found.within(entry.path)
            if entry.is_directory and leave_out(entry.path):
                continue
            if entry.is_directory:
                found.enter(entry.path)
                found.volumes = found.volumes or entry.facts.st_dev != facts.st_dev
            elif entry.facts.st_nlink > 1 and not found.first(entry.facts, budget):
                continue
            found.count(entry.facts)
    except (NodeError, OSError) as error:
        found.problem = in_words(error)
    return found.result()


class _Sizes:
    """Sizes of the directories on the way down. Below DEEPEST all counts for the directory at that level."""

    def __init__(self, by_owner: bool) -> None:
        self._by_owner = by_owner
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
        """Whether a file of several names is met for the first time. Raises OverBudget."""
        key = facts.st_dev, facts.st_ino
        if key in self._seen:
            return False
        budget.hold(_LINK)
        self._seen.add(key)
        return True

    def count(self, facts: os.stat_result) -> None:
        uid = facts.st_uid if self._by_owner else ALL
        people = self._levels[-1][1]
        if uid not in people and len(people) >= MOST_PEOPLE:
            self.problem = f"has files of more than {MOST_PEOPLE} uids"
            return
        size = people.setdefault(uid, Size())
        size.bytes += facts.st_blocks * 512
        size.inodes += 1

    def result(self) -> Tree:
        while len(self._levels) > 1:
            self._up()
        people = {}
        for uid, size in self._levels[0][1].items():
            largest = sorted(self._largest.get(uid, ()), reverse=True)
            people[uid] = Used(size, [(path, taken, inodes) for taken, inodes, path in largest])
        return Tree(people, self.problem, self.volumes)

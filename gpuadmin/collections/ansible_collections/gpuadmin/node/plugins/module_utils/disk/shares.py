"""What each person may take of a walk through a disk that many share: who takes too much is counted in part, alone."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable

SECONDS = 7200.0  # for one person's files
ENTRIES = 20_000_000
LINKS = 200_000  # files of several names: each is remembered until the end
NOBODY = (1 << 32) - 2  # stands for all uids that belong to nobody, and is not an account's


def alone(uid: int) -> int:
    """Each uid is a person: where nothing else is known."""
    return uid


class Shares:
    """A share for each person. ``whose(uid)``: the uid of the person who owns files of that uid (subordinate ids).

    root's directories lead to everybody's and so have no limit themselves; the walk has.
    """

    def __init__(self, whose: Callable[[int], int] = alone, seconds: float = SECONDS, entries: float = ENTRIES) -> None:
        self._whose = functools.lru_cache(maxsize=1 << 17)(whose)
        self._seconds = seconds
        self._entries = entries
        self._spent: dict[int, float] = {}
        self._counted: dict[int, int] = {}
        self._links: dict[int, int] = {}
        self._last = time.monotonic()
        #: Person → why they were counted in part.
        self.problems: dict[int, str] = {}

    def person(self, uid: int) -> int:
        return self._whose(uid)

    def spend(self, facts: os.stat_result) -> bool:
        """One more entry of theirs, and the time since the one before. Returns whether it is still to be counted."""
        person, now = self._whose(facts.st_uid), time.monotonic()
        took, self._last = now - self._last, now
        if person == 0:
            return True
        if self.over(facts):
            return False
        self._spent[person] = self._spent.get(person, 0.0) + took
        self._counted[person] = self._counted.get(person, 0) + 1
        if self._counted[person] > self._entries:
            self.part(facts, f"more than {self._entries} entries")
        elif self._spent[person] > self._seconds:
            self.part(facts, f"takes longer than {self._seconds:g} seconds")
        else:
            return True
        self._spent[person] = float("inf")
        return False

    def link(self, facts: os.stat_result) -> bool:
        """One more file of several names. Returns whether it may be remembered."""
        person = self._whose(facts.st_uid)
        self._links[person] = self._links.get(person, 0) + 1
        if self._links[person] <= LINKS:  # guard: links of one person are not everybody's -> True
            return True
        self.part(facts, f"more than {LINKS} files of several names")
        return False

    def over(self, facts: os.stat_result) -> bool:
        """Whether somebody's share is spent: their directories are not looked into any more."""
        return self._spent.get(self._whose(facts.st_uid), 0.0) == float("inf")

    def part(self, facts: os.stat_result, why: str) -> None:
        """What they have is more than is counted."""
        self.problems.setdefault(self._whose(facts.st_uid), why)

"""How much of root's time and memory one person's files may take.

Its owner shapes a home: sizes, numbers and names are whatever a file system allows. If it takes more than its budget,
only that home has a problem; all others go on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from .errors import NodeError

SECONDS = 21600.0
ENTRIES = 20_000_000
MEMORY = 1 << 30  # bytes of names that may be held at once: of those to come, and of hard links that were seen
PATH = 1 << 20  # bytes; a tree of 4,000 levels of the longest names
_OBJECT = 64  # bytes that Python takes for a name beside its letters


class OverBudget(NodeError):
    """More than an honest home holds or needs."""


class TooMuchAtOnce(OverBudget):
    """One directory or path is too large to be held; what else there is may still be looked at."""


class Budget:
    """What is left of a budget that begins now. ``seconds`` may be infinite, and so may ``entries``.

    A path counts once more for each KiB of it, because it is written down, too. ``written``: bytes that a copy may
    take on the disk where it cannot share blocks. ``setting``: whether these are the site's, and so can be raised.
    """

    def __init__(
        self, seconds: float = SECONDS, entries: float = ENTRIES, written: float = math.inf, *, setting: bool = True
    ) -> None:
        self.seconds = seconds
        self.entries = entries
        self._end = time.monotonic() + seconds
        self._left = entries
        self._room = MEMORY
        self._written = written
        self._setting = setting

    def again(self) -> Budget:
        """For one more walk through the same home: as many entries again, but no extra time."""
        result = Budget(self.seconds, self.entries, self._written, setting=self._setting)
        result._end = self._end
        return result

    def check(self) -> None:
        """Raise OverBudget when the time is over."""
        if time.monotonic() > self._end:
            raise OverBudget(f"takes longer than {self.seconds:g} seconds" + self._hint("home_seconds"))

    def spend(self, path: bytes) -> None:
        """One more entry."""
        self.check()
        if len(path) > PATH:
            raise TooMuchAtOnce(f"holds a path of more than {PATH} bytes")
        self._left -= 1 + len(path) // 1024
        if self._left < 0:  # guard: a budget of entries
            raise OverBudget(f"holds more than {self.entries} entries" + self._hint("home_entries"))

    def _hint(self, name: str) -> str:
        return f" (backups.{name})" if self._setting else ""

    def names(self, found: Iterable[bytes]) -> list[bytes]:
        """Hold names until each is let go."""
        held = []
        for name in found:
            held.append(name)
            try:
                self.hold(name)
            except TooMuchAtOnce:
                for one in held:
                    self.release(one)  # guard: names that could not be held are let go
                raise
        self.check()
        return held

    def hold(self, name: bytes) -> None:
        self._room -= len(name) + _OBJECT
        if self._room < 0:  # guard: a budget of memory
            raise TooMuchAtOnce(f"holds more names at once than fit into {MEMORY >> 20} MiB")

    def release(self, name: bytes) -> None:
        self._room += len(name) + _OBJECT

    def write(self, size: int) -> None:
        """Bytes that are written."""
        self.check()
        self._written -= size
        if self._written < 0:  # guard: a budget of what a copy may write
            raise OverBudget("shares no blocks with a copy of it, and is too large to be copied")


def unlimited() -> Budget:
    """For what somebody asked for and waits for: a restore of what was backed up within a budget."""
    return Budget(math.inf, math.inf)

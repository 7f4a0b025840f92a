"""What a walk does to ids, and what it saw and did."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .ids import Mapping

MOST_WORDS = 20


@dataclass
class Tally:
    """What a walk saw and did. ``uids``, ``gids``: id → entries and bytes on disk; a byte of several links once."""

    seen: int = 0
    changed: int = 0
    acls: int = 0
    uids: dict[int, list[int]] = field(default_factory=dict)
    gids: dict[int, list[int]] = field(default_factory=dict)
    taken: dict[str, list[int]] = field(default_factory=dict)  # "uid 20003" → as uids
    snapshots: int = 0
    within_reach: list[str] = field(default_factory=list)  # of these, where people get at them
    failed: int = 0  # of what is nobody's, or nobody knows whose
    stuck: dict[tuple[str, int], str] = field(default_factory=dict)  # see keep()
    words: list[str] = field(default_factory=list)

    def say(self, path: str, words: str) -> None:
        self.failed += 1
        self.note(path, words)

    def keep(self, ids: Iterable[tuple[str, int]], path: str, words: str) -> None:
        """A file kept ids that it was to lose: kind, and the first id of each move."""
        for one in ids:
            self.stuck.setdefault(one, f"{_shown(path)} {words}")

    def note(self, path: str, words: str) -> None:
        """Add words that the plan shows, and that stop nothing."""
        if len(self.words) < MOST_WORDS:
            self.words.append(f"{_shown(path)} {words}")

    def reach(self, path: str) -> None:
        if len(self.within_reach) < MOST_WORDS:
            self.within_reach.append(_shown(path))

    def add(self, other: Tally) -> None:
        for name in ("seen", "changed", "acls", "snapshots", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, more in ((self.uids, other.uids), (self.gids, other.gids)):
            for one, (entries, size) in more.items():
                count(mine, one, entries, size)
        for key, (entries, size) in other.taken.items():
            count(self.taken, key, entries, size)
        self.stuck = {**other.stuck, **self.stuck}
        self.words = (self.words + other.words)[:MOST_WORDS]
        self.within_reach = (self.within_reach + other.within_reach)[:MOST_WORDS]


def _shown(path: str) -> str:
    """The end of a path for a message, whatever a person has put in it: each character may become ten."""
    return repr(path[-200:])[-400:]  # guard: nobody's name makes what a host says too long to be heard


def count(table: dict[Any, list[int]], key: object, entries: int, size: int) -> None:
    found = table.setdefault(key, [0, 0])
    found[0] += entries
    found[1] += size


@dataclass(frozen=True)
class Task:
    """What a walk does. ``taken``: ids that must be nobody's, looked for where nothing is changed."""

    phase: int
    tree: str
    uid: Mapping
    gid: Mapping
    apply: bool
    taken_uids: Mapping = field(default_factory=lambda: Mapping(()))
    taken_gids: Mapping = field(default_factory=lambda: Mapping(()))


def measure(task: Task, tally: Tally, facts: os.stat_result) -> None:
    """Count an entry of the people of the plan, and one whose id must be nobody's."""
    size = facts.st_blocks * 512 // max(1, facts.st_nlink if not stat.S_ISDIR(facts.st_mode) else 1)
    if task.uid(facts.st_uid) is not None:
        count(tally.uids, facts.st_uid, 1, size)
    elif task.gid(facts.st_gid) is not None:
        count(tally.gids, facts.st_gid, 1, size)
    if task.taken_uids(facts.st_uid) is not None:
        count(tally.taken, f"uid {facts.st_uid}", 1, size)
    if task.taken_gids(facts.st_gid) is not None:
        count(tally.taken, f"gid {facts.st_gid}", 1, size)

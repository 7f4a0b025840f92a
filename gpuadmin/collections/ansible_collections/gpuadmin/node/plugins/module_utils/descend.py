"""Walking a tree that somebody else made: no link is followed, no file system entered, no name trusted.

One directory is open at a time, so neither the longest path nor the number of open files is a limit. The way up is
``..``, and must lead to the directory that we came from.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .btrfs import PLACEHOLDER_INODE, open_directory, subvolume_of
from .errors import NodeError


@dataclass(frozen=True)
class Entry:
    """Something in a directory that is open now: ``at`` is good until the next entry is asked for."""

    path: bytes  # relative to where the walk began
    name: bytes
    at: int
    facts: os.stat_result
    leaving: bool = False  # a directory, after all that is in it

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.facts.st_mode)


@dataclass
class _Level:
    path: bytes
    names: list[bytes]
    identity: tuple[int, int]
    facts: os.stat_result | None = None


def identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def same_file_system(entry: Entry, parent: os.stat_result) -> bool:
    """The usual rule of what to enter: nothing that is mounted, no other subvolume."""
    return entry.facts.st_dev == parent.st_dev and entry.facts.st_ino != PLACEHOLDER_INODE


def same_mount(entry: Entry, parent: os.stat_result) -> bool:
    """What to enter: directories of the same file system, and subvolumes of it, which have a device of their own."""
    if entry.facts.st_dev == parent.st_dev:
        return True
    handle = open_directory(entry.name, entry.at)
    try:
        return subvolume_of(handle) is not None and _mount_id(handle) == _mount_id(entry.at)
    finally:
        os.close(handle)


def _mount_id(handle: int) -> str:
    """Which mount an open file lies on: proc_pid_fdinfo(5). A subvolume has its parent's."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as stream:
        for line in stream:
            if line.startswith("mnt_id:"):
                return line.split()[1]
    raise NodeError("the kernel does not say which mount a file lies on")


def walk(
    top: int, enter: Callable[[Entry, os.stat_result], bool] = same_file_system, *, leaving: bool = False
) -> Iterator[Entry]:
    """Everything below the directory ``top`` (which stays open), each directory's names in the order of their bytes.

    ``enter(directory, facts of its parent)`` says whether to go into it. With ``leaving`` a directory that was entered
    comes a second time, when all in it has come. What vanishes meanwhile is left out.
    """
    here = os.dup(top)
    try:
        facts = os.fstat(here)
        levels = [_Level(b"", _names(here), identity(facts), facts)]
        while True:
            level = levels[-1]
            if level.names:
                name = level.names.pop()
                try:
                    facts = os.stat(name, dir_fd=here, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                entry = Entry(level.path + name, name, here, facts)
                yield entry
                if not entry.is_directory or level.facts is None or not enter(entry, level.facts):
                    continue
                try:
                    inner = open_directory(name, here)
                except FileNotFoundError:
                    continue
                os.close(here)
                here = inner
                found = os.fstat(here)
                if identity(found) != identity(facts):
                    raise NodeError(f"{os.fsdecode(entry.path)!r} was exchanged while it was looked at")
                levels.append(_Level(entry.path + b"/", _names(here), identity(found), found))
                continue
            done = levels.pop()
            if not levels:
                return
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = above
            if identity(os.fstat(here)) != levels[-1].identity:
                raise NodeError(f"{os.fsdecode(done.path)!r} was moved while it was looked at")
            if leaving and done.facts is not None:
                name = done.path.rstrip(b"/").rpartition(b"/")[2]
                yield Entry(done.path.rstrip(b"/"), name, here, done.facts, leaving=True)
    finally:
        os.close(here)


def _names(handle: int) -> list[bytes]:
    """The names in an open directory, last first, so that they can be popped."""
    return sorted((os.fsencode(name) for name in os.listdir(handle)), reverse=True)

"""Walking a tree that somebody else made: no link is followed, no file system entered, no name trusted.

One directory is open at a time, so neither the longest path nor the number of open files is a limit. The way up is
``..``, and must lead to the directory that we came from.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Generator
from dataclasses import dataclass

from .btrfs import PLACEHOLDER_INODE, open_directory
from .budget import Budget, TooMuchAtOnce
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
    """A directory on the way down. Only names are kept: paths of all levels would be the square of the depth."""

    name: bytes
    names: list[bytes]
    facts: os.stat_result


def identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def same_file_system(entry: Entry, parent: os.stat_result) -> bool:
    """The usual rule of what to enter: nothing that is mounted, no other subvolume."""
    return entry.facts.st_dev == parent.st_dev and entry.facts.st_ino != PLACEHOLDER_INODE


def same_mount(entry: Entry, _parent: os.stat_result) -> bool:
    """What to enter: directories of the same mount, also in subvolumes there.

    The device does not tell: a subvolume has one of its own, and ``mount --bind`` shows a part of the same device.
    """
    handle = open_directory(entry.name, entry.at)
    try:
        return _mount_id(handle) == _mount_id(entry.at)  # guard: what is mounted inside of a tree is not entered
    finally:
        os.close(handle)


def same_tree(entry: Entry, parent: os.stat_result) -> bool:
    """What to enter: nothing that is mounted, also from the same file system, and no other subvolume."""
    return same_file_system(entry, parent) and same_mount(entry, parent)


def _mount_id(handle: int) -> bytes:
    """Which mount an open file is on: proc_pid_fdinfo(5). A subvolume has its parent's."""
    facts = os.open(f"/proc/self/fdinfo/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = re.search(rb"^mnt_id:\s*([0-9]+)$", os.read(facts, 4096), re.MULTILINE)
    finally:
        os.close(facts)
    if found is None:
        raise NodeError("the kernel does not say which mount a file is on")
    return found.group(1)


#: Given an entry that was not entered, and why.
Skip = Callable[[Entry, str], None]


def walk(
    top: int,
    enter: Callable[[Entry, os.stat_result], bool] = same_file_system,
    *,
    leaving: bool = False,
    budget: Budget | None = None,
    skip: Skip | None = None,
    again: bool = False,
    enough: Callable[[os.stat_result], bool] | None = None,
) -> Generator[Entry, None, None]:
    """Everything below the directory ``top`` (which stays open), each directory's names in the order of their bytes.

    ``enter(directory, facts of its parent)`` says whether to go into it. With ``leaving`` a directory that was entered
    comes a second time, when all in it has come. What vanishes meanwhile is left out. What exceeds the ``budget``
    raises OverBudget. A directory that cannot be entered, because somebody exchanged it, raises NodeError or OSError;
    with ``skip`` it is given to that, and the walk goes on.

    ``again``: for callers that only look, with ``skip``. What cannot be looked at (a person's own FUSE) is skipped as
    well, and if the way up leads elsewhere, the walk goes on from the top and drops what was moved away. So is a
    directory or a path that is too large to be held. ``enough(facts of a directory)``: whether the rest of it is left
    out.
    """
    here = os.dup(top)
    try:
        facts = os.fstat(here)
        levels = [_Level(b"", _names(here, budget), facts)]
        above = b""
        while True:
            level = levels[-1]
            if level.names and enough is not None and enough(level.facts):
                _forget(level, budget)
            if level.names:
                name = level.names.pop()
                if budget is not None:
                    budget.release(name)
                found = _facts(Entry(above + name, name, here, level.facts), skip if again else None)
                if found is None:
                    continue
                entry = Entry(above + name, name, here, found)
                if budget is not None and not _spent(entry, budget, skip if again else None):
                    continue
                yield entry
                inner = _inner(entry, level.facts, enter, skip) if entry.is_directory else None
                if inner is None:
                    continue
                os.close(here)
                here = inner
                above = entry.path + b"/"
                levels.append(_Level(name, _held(entry, here, budget, skip if again else None), os.fstat(here)))
                continue
            done = levels.pop()
            if not levels:
                return
            outer = _outer(here, levels[-1].facts)
            path = above[:-1]
            if outer is None:
                if skip is None or not again:
                    raise NodeError(f"{os.fsdecode(path)!r} was moved while it was looked at")
                skip(Entry(path, done.name, here, done.facts), "was moved while it was looked at")
            os.close(here)
            here = _from_top(top, levels) if outer is None else outer
            if outer is None:
                above = b"".join(level.name + b"/" for level in levels[1:])
                continue
            above = path[: len(path) - len(done.name)]
            if leaving:
                yield Entry(path, done.name, here, done.facts, leaving=True)
    finally:
        os.close(here)


def _forget(level: _Level, budget: Budget | None) -> None:
    while level.names:
        name = level.names.pop()
        if budget is not None:
            budget.release(name)


def _spent(entry: Entry, budget: Budget, skip: Skip | None) -> bool:
    """Whether an entry is still within the budget. Raises OverBudget; what is too large alone is skipped."""
    try:
        budget.spend(entry.path)
    except TooMuchAtOnce as error:
        if skip is None:
            raise
        skip(entry, str(error))
        return False
    return True


def _held(entry: Entry, handle: int, budget: Budget | None, skip: Skip | None) -> list[bytes]:
    """The names in a directory that was entered; none where they are too many to be held, and it is skipped."""
    try:
        return _names(handle, budget)
    except TooMuchAtOnce as error:  # guard: a directory that cannot be held ends nobody else's measuring
        if skip is None:
            raise
        skip(entry, str(error))
        return []


def _facts(entry: Entry, skip: Skip | None) -> os.stat_result | None:
    """What stat(2) says of a name; None if it has vanished, or is skipped."""
    try:
        return os.stat(entry.name, dir_fd=entry.at, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        if skip is None:
            raise
        skip(entry, f"cannot be looked at: {error.strerror}")
        return None


def _outer(here: int, expected: os.stat_result) -> int | None:
    """Open the directory above; None if it is not the expected one."""
    outer = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
    if identity(os.fstat(outer)) == identity(expected):  # guard: the way up leads to where the walk came from -> True
        return outer
    os.close(outer)
    return None


def _from_top(top: int, levels: list[_Level]) -> int:
    """Open the deepest directory that is still where it was; the levels below it are given up."""
    here = os.dup(top)
    for depth, level in enumerate(levels[1:], 1):
        try:
            inner = open_directory(level.name, here)
        except OSError:
            del levels[depth:]
            break
        if identity(os.fstat(inner)) != identity(level.facts):
            os.close(inner)
            del levels[depth:]
            break
        os.close(here)
        here = inner
    return here


def _inner(
    entry: Entry, parent: os.stat_result, enter: Callable[[Entry, os.stat_result], bool], skip: Skip | None
) -> int | None:
    """Open the directory that an entry is; None if it is not entered."""
    try:
        if not enter(entry, parent):
            return None
        handle = open_directory(entry.name, entry.at)
    except FileNotFoundError:
        return None
    except OSError as error:
        if skip is None:
            raise
        skip(entry, f"cannot be entered: {error.strerror}")
        return None
    # guard: a directory that was exchanged on the way in is not entered -> True
    if identity(os.fstat(handle)) == identity(entry.facts):
        return handle
    os.close(handle)
    if skip is None:
        raise NodeError(f"{os.fsdecode(entry.path)!r} was exchanged while it was looked at")
    skip(entry, "was exchanged while it was looked at")
    return None


def _names(handle: int, budget: Budget | None) -> list[bytes]:
    """The names in an open directory, last first, so that they can be popped."""
    try:  # looking at somebody's tree changes nothing in it, not even when it was last read
        fcntl.fcntl(
            handle,
            fcntl.F_SETFL,
            fcntl.fcntl(handle, fcntl.F_GETFL)
            # guard: to look at a tree leaves no trace in it
            | os.O_NOATIME,
        )
    except PermissionError:
        pass  # neither root's nor the caller's own
    with os.scandir(handle) as found:
        names = (os.fsencode(one.name) for one in found)
        return sorted(names if budget is None else budget.names(names), reverse=True)

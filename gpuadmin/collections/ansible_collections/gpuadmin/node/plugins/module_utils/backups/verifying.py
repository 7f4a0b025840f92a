"""Whether a home in a backup is what its manifest says, and whether it can be restored: by restoring it.

First the snapshot is read and compared. Then the copier that a restore uses copies the home into a directory of root
beside the backups (on btrfs that shares the blocks), what came out is compared with the manifest, and deleted. Of a
large home a sample is restored, another one each time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .. import btrfs
from ..budget import ENTRIES, SECONDS, Budget, OverBudget
from ..errors import NodeError, in_words
from ..purge import purge
from ..safe_walk import Entry, identity
from . import backup_set, home_manifest, home_reader
from .backup_set import Backup
from .copying import Copier
from .home_manifest import Line
from .home_reader import Reader

SCRATCH = ".gpuadmin-verify-"


@dataclass(frozen=True)
class Limits:
    """The budget of one home, and how much of it is restored: all, if it has no more than ``entries`` and ``bytes``.

    Of a larger one ``sample`` entries by chance, as far as they are no more than ``bytes``, and that with the longest
    path. Reading a copy that shares its blocks with the snapshot proves the copying, not the disk again.
    """

    seconds: float = SECONDS
    most: int = ENTRIES
    entries: int = 10_000
    bytes: int = 1 << 30
    sample: int = 1000

    def budget(self) -> Budget:
        return Budget(self.seconds, self.most, 2 * self.bytes)


@dataclass(frozen=True)
class Found:
    """``differences``: how the backup is damaged. ``problem``: why it is not known to be good. Both empty: verified."""

    differences: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class Task:
    backup: Backup
    name: str
    limits: Limits = Limits()


def verify_home(task: Task) -> Found:
    """Read a home of a set, compare it with its manifest, and restore it. A full disk raises OSError."""
    limits, budget = task.limits, task.limits.budget()
    try:
        found = differences(task, budget)
    except OverBudget as error:
        return Found(problem=f"{error}")  # guard: what was not read to its end is not verified -> Found()
    except (NodeError, OSError) as error:
        return Found((in_words(error),))  # guard: what cannot be read is damaged -> Found()
    if found:  # guard: what differs is damaged
        return Found(tuple(found))
    try:
        with _scratch(os.path.dirname(task.backup.path), f"{task.backup.name}-{task.name}") as place:
            home = task.backup.homes[task.name]
            whole = home.entries <= limits.entries and home.bytes <= limits.bytes
            found = _restore(task, place, budget) if whole else _sample(task, place, budget)
    except (NodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        # guard: what could not be restored is not verified -> Found()
        return Found(problem=f"cannot be restored: {in_words(error)}")
    return Found(problem=f"is not restored as it was: {', '.join(found)}" if found else None)


def differences(task: Task, budget: Budget) -> list[str]:
    """How a home in a set differs from its manifest."""
    backup, name = task.backup, task.name
    top, nested = backup_set.source(backup, name)
    home = backup.homes[name]
    recorded = home_manifest.total(home_manifest.read(backup.manifest(name)))
    if recorded.checksum != home.checksum:  # guard: a manifest is the one that was recorded
        return ["its manifest is not the one that was recorded"]

    def there() -> Iterator[Line]:
        return home_reader.lines(top, nested, budget=budget, form=backup.format)

    # guard: a verification compares the manifest with what was recorded -> True
    if home_manifest.total(there()).checksum == home.checksum:
        return []
    budget = task.limits.budget()
    words = home_manifest.compare(home_manifest.read(backup.manifest(name)), there())
    return words or ["differs"]  # guard: what differs without words differs -> words


@contextmanager
def _scratch(directory: str, label: str) -> Iterator[int]:
    """An empty directory of root with ``copy`` to be made in it and ``links``; what is in it is deleted afterwards.

    What a verification left that was killed goes first: nobody holds its lock.
    """
    above = btrfs.open_directory(directory)
    try:
        for name in os.listdir(above):
            # guard: a verification clears what verifications have left -> not name.startswith('20')
            if name.startswith(SCRATCH):
                _clear(above, name)
        name = f"{SCRATCH}{label}-{os.getpid()}"
        place = _own(above, name)
        try:
            os.mkdir("links", 0o700, dir_fd=place)
            yield place
        finally:
            os.close(place)
            _clear(above, name)
    finally:
        os.close(above)


def _own(above: int, name: str) -> int:
    """Make the directory ``name`` and open it, locked: until then another verification takes it for rubbish."""
    while True:
        os.mkdir(name, 0o700, dir_fd=above)
        try:
            place = btrfs.open_directory(name, above)
        except FileNotFoundError:  # guard: a place that another verification has cleared is made again
            continue
        try:
            fcntl.flock(place, fcntl.LOCK_EX)
            if identity(os.stat(name, dir_fd=above, follow_symlinks=False)) == identity(os.fstat(place)):
                return place
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(place)
            raise
        os.close(place)


def _clear(above: int, name: str) -> None:
    try:
        handle = btrfs.open_directory(name, above)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        purge(above, os.fsencode(name), lambda entry: None)
    except BlockingIOError:
        pass  # another verification is at it
    finally:
        os.close(handle)


def _restore(task: Task, place: int, budget: Budget) -> list[str]:
    backup, name = task.backup, task.name
    top, nested = backup_set.source(backup, name)
    source, links = btrfs.open_directory(top), btrfs.open_directory("links", place)
    try:
        Copier(
            links,
            budget.again(),  # guard: a verification has as many entries for each walk as the backup had -> budget
        ).tree(source, nested, place, b"copy")
    finally:
        os.close(source)
        os.close(links)
    copy = btrfs.open_directory("copy", place)
    try:
        found = home_reader.lines(copy, budget=budget.again(), form=backup.format)
        # guard: a verification restores a small home -> True
        if home_manifest.total(found).checksum == backup.homes[name].checksum:
            return []
        words = home_manifest.compare(
            home_manifest.read(backup.manifest(name)), home_reader.lines(copy, form=backup.format)
        )
        return words or ["differs"]  # guard: a copy that differs without words differs -> words
    finally:
        os.close(copy)


def chosen(found: Iterator[Line], limits: Limits, chance: random.Random) -> list[Line]:
    """Lines by chance, and the one of the longest path, as far as their bytes are within the limit.

    Further hard links are not among them: the first one says what they are.
    """
    picked: list[Line] = []
    longest: Line | None = None
    for number, line in enumerate(one for one in found if one.kind != "h" and one.path != "."):
        if longest is None or len(line.path) > len(longest.path):
            longest = line
        if len(picked) < limits.sample:
            picked.append(line)
        elif (place := chance.randrange(number + 1)) < limits.sample:
            picked[place] = line
    chance.shuffle(picked)
    result, size = {}, 0
    for line in ([longest] if longest is not None else []) + picked:
        bytes_ = line.size if line.kind == "f" else 0
        if size + bytes_ <= limits.bytes and line.path not in result:
            result[line.path] = line
            size += bytes_
    return list(result.values())


def _sample(task: Task, place: int, budget: Budget) -> list[str]:
    backup, name = task.backup, task.name
    top, nested = backup_set.source(backup, name)
    lines = chosen(home_manifest.read(backup.manifest(name)), task.limits, random.SystemRandom())
    os.mkdir("copy", 0o700, dir_fd=place)
    links, copy = btrfs.open_directory("links", place), btrfs.open_directory("copy", place)
    differences = []
    try:
        # what is above comes later: a directory is there already when its own line comes, and gets what it lacks
        for line in sorted(lines, key=lambda line: (line.kind == "d", -line.path.count("/"))):
            budget.check()
            have = _one(line, top, nested, links, copy, budget, backup.format)
            if have != line:  # guard: a verification restores a sample of a large home
                differences += home_manifest.compare(iter([line]), iter([have]))
    finally:
        os.close(links)
        os.close(copy)
    return differences


def _one(line: Line, top: str, nested: dict[str, str], links: int, copy: int, budget: Budget, form: int) -> Line:
    """Restore one entry to where it would be below ``copy``, and return what is there."""
    above, _, last = line.path.rpartition("/")
    name = os.fsencode(last)
    source = _open_in(top, nested, above)
    try:
        there = _make_way(copy, above)
        try:
            inner = nested.get(line.path)
            if inner is not None:
                handle = btrfs.open_directory(os.path.dirname(inner))
                entry_name = os.fsencode(os.path.basename(inner))
            else:
                handle, entry_name = os.dup(source), name
            try:
                facts = os.stat(entry_name, dir_fd=handle, follow_symlinks=False)
                entry = Entry(os.fsencode(line.path), entry_name, handle, facts)
                copier = Copier(links, budget)
                (copier.directory if line.kind == "d" else copier.entry)(entry, there, name)
            finally:
                os.close(handle)
            return home_reader.single(there, name, line.path, Reader(budget=budget, form=form, links=False))
        finally:
            os.close(there)
    finally:
        os.close(source)


def _open_in(top: str, nested: dict[str, str], path: str) -> int:
    """Open a directory of a home in a set, by its path in the home."""
    best = max((one for one in nested if path == one or path.startswith(one + "/")), key=len, default=None)
    base = btrfs.open_directory(top if best is None else nested[best])
    try:
        return btrfs.open_deep(path if best is None else path[len(best) + 1 :], base)
    finally:
        os.close(base)


def _make_way(top: int, path: str) -> int:
    """Open a directory below ``top``, and make what is missing of the way."""
    handle = os.dup(top)
    for part in path.split("/") if path else []:
        try:
            try:
                os.mkdir(part, 0o700, dir_fd=handle)
            except FileExistsError:
                pass
            inner = btrfs.open_directory(part, handle)
        finally:
            os.close(handle)
        handle = inner
    return handle

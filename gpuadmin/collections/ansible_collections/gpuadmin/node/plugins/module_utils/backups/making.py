"""Making and verifying backups of the homes on the storage host."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, Any, cast

from gpuadmin.common.records.backups import BackupOrder
from gpuadmin.common.text import counted

from .. import btrfs, mounts
from ..each import Failed, each
from ..errors import NodeError, in_words
from ..fields import home_owner, quoted
from ..files import flocked, make_directory, sync_filesystem, unlink_if_present
from ..homes import directories, trash
from . import accounting, backup_set, home_manifest, home_reader
from .backup_set import (
    LOCK,
    NAME,
    UNFINISHED,
    Backup,
    changed,
    check_directory,
    complete,
    done,
    finish,
    load,
    reading,
    remove,
    source,
    store,
    tidy,
    unfinished,
)
from .copy_stream import NoRoom, Room, check_room
from .snapshots import snapshots
from .verifying import Found, Limits, Task, verify_home

SETTING = " (backups.home_seconds)"  # the seconds that a home may take


def limit_homes(order: BackupOrder) -> Limits:
    """What one home may take; one that takes more is a problem, and the others go on."""
    return Limits(order.home_seconds, order.home_entries)


def observe(order: BackupOrder) -> tuple[dict[str, int], dict[str, str]]:
    """The homes that there are to back up (name → uid), and what else is beside them, and why it is not a home."""
    found, other = {}, {}
    for name, entry in sorted(directories.scan(order.root).items()):
        if name.startswith("."):
            continue
        if home_owner(name) is None or entry.kind != "directory":
            other[quoted(name)] = f"is a {entry.kind}" if home_owner(name) else "is not a user name"
        else:
            found[name] = entry.uid
    return found, other


def check(order: BackupOrder) -> str:
    """Refuse what cannot be backed up; return the root of the subvolume that holds the homes."""
    if not NAME.match(order.name):  # guard: a backup has a name that is one
        raise NodeError(f"{quoted(order.name)} is not a name for a backup")
    if not directories.check_root(order.root, order.mountpoint, mounts.read_mountinfo()):
        raise NodeError(f"there is no {order.root}")
    check_directory(order.directory)  # guard: backups are made where root alone can enter
    if (order.directory + "/").startswith(order.root.rstrip("/") + "/"):  # guard: backups are not in homes
        raise NodeError(f"{order.directory} is inside of the homes; backups belong beside them")
    return btrfs.holder(order.root)


def plan(order: BackupOrder) -> tuple[list[str], dict[str, str]]:
    """What making this backup means, in words, and what will not be in it; the same before and while it is made."""
    check(order)
    there = load(order.directory, order.name)
    if there is not None:
        lacking = [name for name in _to_verify(order, there.homes) if there.homes[name].verified is None]
        return [f"backup {order.name}: verify {name}" for name in lacking], dict(there.problems)
    found, other = observe(order)
    other |= _around(order)
    operations = [f"backup {order.name}: snapshot of {order.root} with {counted(len(found), 'home')}"]
    wanted = set(_to_verify(order, found))
    operations += [
        f"backup {order.name}: manifest of {name}" + (", verify" if name in wanted else "") for name in found
    ]
    return operations, other


def _around(order: BackupOrder) -> dict[str, str]:
    """What the set lacks beside homes, and why."""
    return {**trash.problems(order.root), **(accounting.problems(order.root) if order.accounting else {})}


def _to_verify(order: BackupOrder, found: Mapping[str, object]) -> list[str]:
    return sorted(found) if order.users is None else [name for name in sorted(order.users) if name in found]


def create(order: BackupOrder) -> Backup:
    """Make the set, or what is missing of it. Raises NodeError if there is none, or where it is damaged.

    What is wrong with one home is in the set's ``problems``; such a home is not in it, or is not verified.
    """
    holder = check(order)
    try:
        with flocked(LOCK):  # guard: backups are made under the lock
            found = load(order.directory, order.name) or _make(order, holder)
        return verify(found, _to_verify(order, found.homes), order.workers, limits=limit_homes(order))
    except OSError as error:
        raise NodeError(f"the backup was not made: {in_words(error)}") from error


def _make(order: BackupOrder, holder: str) -> Backup:
    path = os.path.join(order.directory, order.name)
    os.makedirs(os.path.dirname(order.directory), exist_ok=True)
    make_directory(order.directory, 0o700, os.geteuid(), os.getegid())
    tidy(order.directory, order.name)
    backup = unfinished(order.directory, order.name)
    try:
        if backup is None:
            backup = _begin(order, holder, path)
        backup = _manifests(order, backup)
        sync_filesystem(path)
        finish(backup)
        return backup
    except (NodeError, OSError):
        remove(order.directory, order.name)
        raise


def _begin(order: BackupOrder, holder: str, path: str) -> Backup:
    """The snapshots of a set, with which the next run continues if this one is killed."""
    remove(order.directory, order.name)
    try:
        check_room(order.directory)
    except NoRoom as error:
        raise NodeError(f"{order.directory}: {error}: no backup was begun") from error
    make_directory(path, 0o700, os.geteuid(), os.getegid())
    for part in ("nested", "manifest"):
        make_directory(os.path.join(path, part), 0o700, os.geteuid(), os.getegid(), sync=False)
    backup = snapshots(order.root, holder, path, order.name)
    backup = replace(backup, problems={**backup.problems, **_around(order)})
    store(backup, UNFINISHED)
    return backup


def _earlier(order: BackupOrder, name: str, uid: int) -> Iterator[home_manifest.Line] | None:
    """The newest manifest of the same person's home: what has not changed since is not read again.

    Without what was changed while that set's snapshot was made: the same times do not mean the same content there.
    """
    for backup in reversed(complete(order.directory)):
        home = backup.homes.get(name)
        if home is not None and home.uid == uid and backup.root == order.root:
            return (
                line
                for line in home_manifest.read(backup.manifest(name))
                if line.ctime < backup.begun  # guard: what was changed while a snapshot was made is read again
            )
    return None


def _write_manifest(task: tuple[BackupOrder, Backup, str]) -> home_manifest.Total | None:
    """Write the manifest of one home, on disk when it is returned; None if there is no room for it."""
    order, backup, name = task
    try:
        check_room(order.directory)  # guard: a manifest leaves room
        return _written(order, backup, name)
    except NoRoom:
        unlink_if_present(backup.manifest(name))
        return None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        unlink_if_present(backup.manifest(name))
        return None


class _Roomy:
    """A file that is written as long as the disk keeps its reserve."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._room = file, Room(file.fileno())

    def write(self, data: bytes) -> int:
        self._room.spend(len(data))
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _written(order: BackupOrder, backup: Backup, name: str) -> home_manifest.Total:
    top, nested = source(backup, name)
    earlier = _earlier(order, name, backup.homes[name].uid)
    with open(backup.manifest(name), "wb") as file:
        with gzip.GzipFile(fileobj=cast(IO[bytes], _Roomy(file)), filename="", mode="wb", compresslevel=1) as stream:
            lines = home_reader.lines(
                top, nested, earlier=earlier, budget=limit_homes(order).budget(), form=backup.format,
                live=os.path.join(order.root, name),
            )  # fmt: skip
            found = home_manifest.total(lines, home_manifest.Writer(stream.write))
        file.flush()
        os.fsync(file.fileno())
    return found


def _manifests(order: BackupOrder, backup: Backup) -> Backup:
    """Write the missing manifests, and record each home as soon as its own is written.

    One that found no room is tried again when nothing else is being written: another one may have held the room.
    """
    waiting: list[str] = []
    for name, found in _all(order, backup, [name for name, home in backup.homes.items() if not done(home)]):
        if found is None:
            waiting.append(name)
        else:
            backup = _recorded(backup, name, found)
    if waiting and len(waiting) == len(backup.homes):
        raise NoRoom(f"{order.directory} has no room for the manifests: no backup was made")
    again = replace(order, workers=1)
    for name, found in _all(again, backup, waiting):
        backup = _recorded(backup, name, found or Failed(f"has no room for its manifest in {order.directory}"))
    return backup


def _all(
    order: BackupOrder, backup: Backup, names: Sequence[str]
) -> Iterator[tuple[str, home_manifest.Total | Failed | None]]:
    tasks = [(order, backup, name) for name in names]
    for task, found in each(_write_manifest, tasks, order.workers, order.home_seconds, setting=SETTING):
        yield task[2], found


def _recorded(backup: Backup, name: str, found: home_manifest.Total | Failed) -> Backup:
    others = {one: home for one, home in backup.homes.items() if one != name}
    if isinstance(found, Failed):
        backup = replace(backup, homes=others, problems={**backup.problems, name: found.why})
        unlink_if_present(backup.manifest(name))
    else:
        home = replace(backup.homes[name], **vars(found))
        backup = replace(backup, homes=dict(sorted({**others, name: home}.items())))
    store(backup, UNFINISHED)
    return backup


def verify(
    backup: Backup, wanted: Sequence[str], workers: int = 2, *, again: bool = False, limits: Limits | None = None
) -> Backup:
    """Read homes in a set, compare them with their manifests, and restore them out of sight; record each as it ends.

    Raises NodeError that says which are damaged; the others are recorded. One that is not known to be good, because it
    takes too much or cannot be restored, is in ``problems``; with ``again`` that is an error, too.
    """
    directory = os.path.dirname(backup.path)
    with reading(directory, backup.name):
        backup, damaged, unknown = look(backup, wanted, workers, again=again, limits=limits or Limits())
    if damaged or (again and unknown):
        problems = [f"{backup.name} is damaged: {_listed(damaged)}"] if damaged else []
        problems += [f"{backup.name} was not verified: {_listed(unknown)}"] if unknown else []
        raise NodeError("; ".join(problems))
    return backup


def look(
    backup: Backup, wanted: Sequence[str], workers: int, *, again: bool, limits: Limits
) -> tuple[Backup, dict[str, str], dict[str, str]]:
    """As ``verify``, for a set that is held: what is recorded then, the homes that are damaged, those not known."""
    tasks = [Task(backup, name, limits) for name in wanted if again or backup.homes[name].verified is None]
    damaged: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for task, found in each(verify_home, tasks, workers, limits.seconds, setting=SETTING):
        result = Found(problem=found.why) if isinstance(found, Failed) else found
        if result.differences:
            damaged[task.name] = ", ".join(result.differences)
        elif result.problem:
            unknown[task.name] = result.problem
        backup = _record(backup, task.name, result)
    return backup, damaged, unknown


def _record(backup: Backup, name: str, found: Found) -> Backup:
    when = (
        None
        if found.differences or found.problem  # guard: a home whose restore failed is not verified -> differences
        else backup_set.now()
    )
    return changed(backup, partial(_read, name, when, None if found.differences else found.problem), "read")


def verify_one(backup: Backup, name: str, limits: Limits) -> str:
    """Verify one home, here and now. Returns when that was; raises NodeError if it is not as it was."""
    with reading(os.path.dirname(backup.path), backup.name):
        found = verify_home(Task(backup, name, limits))
        when = _record(backup, name, found).homes[name].verified
    if when is None:
        words = ", ".join(found.differences)
        raise NodeError(f"{backup.name} is damaged: {name}: {words}" if words else f"{name}: {found.problem}")
    return when


def _read(name: str, when: str | None, problem: str | None, backup: Backup) -> Backup:
    """A set's record after one of its homes was read."""
    problems = {one: why for one, why in backup.problems.items() if one != name}
    if problem:
        problems[name] = f"was not verified: {problem}"
    home = replace(backup.homes[name], verified=when)
    return replace(backup, homes={**backup.homes, name: home}, problems=problems)


def _listed(found: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in sorted(found.items()))


def uncopied(backup: Mapping[str, Any]) -> list[str]:
    """Whose homes have no second copy of a set (as a dict), in words."""
    return [
        f"{name} has no copy on {host}: {why}"
        for host, homes in sorted(backup["uncopied"].items())
        for name, why in sorted(homes.items())
    ]


def missing(backup: Mapping[str, Any]) -> list[str]:
    """What a set (as a dict) says that it lacks, in words."""
    return [
        f"{name} {why}" + ("" if name in backup["homes"] else ": not backed up")
        for name, why in sorted(backup["problems"].items())
    ]

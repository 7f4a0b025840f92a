"""Making and verifying backups of the homes on the storage host."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from . import btrfs, home_manifest, homes, leftovers, mounts
from .backup_set import LOCK, NAME, Backup, Home, check_directory, complete, load, names, now, remove, source, store
from .errors import NodeError
from .fields import home_owner, shown
from .files import flocked, make_directory, sync_directory, sync_filesystem

RESERVE = 64 << 20  # bytes that must be free, because a manifest is written too


@dataclass(frozen=True)
class Request:
    """``verify``: whose homes are read a second time and compared; None: everybody's."""

    root: str
    directory: str
    name: str
    mountpoint: str | None = None
    verify: Sequence[str] | None = None
    workers: int = 2


def observe(request: Request) -> tuple[dict[str, int], dict[str, str]]:
    """The homes that there are to back up (name → uid), and what lies beside them and why it is none."""
    found, other = {}, {}
    for name, entry in sorted(homes.scan(request.root).items()):
        if name.startswith("."):
            continue
        if home_owner(name) is None or entry.kind != "directory":
            other[shown(name)] = f"is a {entry.kind}" if home_owner(name) else "is not a user name"
        else:
            found[name] = entry.uid
    return found, other


def check(request: Request, mountinfo: str | None = None) -> str:
    """Refuse what cannot be backed up; return the root of the subvolume that holds the homes."""
    if not NAME.match(request.name):
        raise NodeError(f"{shown(request.name)} is not a name for a backup")
    table = mounts.read_mountinfo() if mountinfo is None else mountinfo
    if not homes.check_root(homes.Request(request.root, mountpoint=request.mountpoint), table):
        raise NodeError(f"there is no {request.root}")
    check_directory(request.directory)
    if (request.directory + "/").startswith(request.root.rstrip("/") + "/"):
        raise NodeError(f"{request.directory} lies inside of the homes; backups belong beside them")
    return btrfs.holder(request.root)


def plan(request: Request, mountinfo: str | None = None) -> tuple[list[str], dict[str, str]]:
    """What making this backup means, in words, and what will not be in it; the same before and while it is made."""
    check(request, mountinfo)
    done = load(request.directory, request.name)
    if done is not None:
        missing = [name for name in _to_verify(request, done.homes) if done.homes[name].verified is None]
        return [f"backup {request.name}: verify {name}" for name in missing], dict(done.problems)
    found, other = observe(request)
    other |= leftovers.problems(request.root)
    words = [f"backup {request.name}: snapshot of {request.root} with {len(found)} homes"]
    wanted = set(_to_verify(request, found))
    words += [f"backup {request.name}: manifest of {name}" + (", verify" if name in wanted else "") for name in found]
    return words, other


def _to_verify(request: Request, found: Mapping[str, object]) -> list[str]:
    return sorted(found) if request.verify is None else [name for name in sorted(request.verify) if name in found]


def create(request: Request, mountinfo: str | None = None) -> Backup:
    """Make the set, or what is missing of it. Raises NodeError, and then nothing calls itself a backup."""
    holder = check(request, mountinfo)
    with flocked(LOCK):
        try:
            found = load(request.directory, request.name) or _make(request, holder)
            return verify(found, _to_verify(request, found.homes), request.workers)
        except OSError as error:
            raise NodeError(f"the backup was not made: {error}") from error


def _make(request: Request, holder: str) -> Backup:
    path = os.path.join(request.directory, request.name)
    os.makedirs(os.path.dirname(request.directory), exist_ok=True)
    make_directory(request.directory, 0o700, os.geteuid(), os.getegid())
    for name in names(request.directory):
        if load(request.directory, name) is None:
            remove(request.directory, name)
    space = os.statvfs(request.directory)
    if space.f_bavail * space.f_frsize < RESERVE:
        raise NodeError(f"less than {RESERVE >> 20} MiB are free in {request.directory}: no backup was begun")
    try:
        make_directory(path, 0o700, os.geteuid(), os.getegid())
        for part in ("nested", "manifest"):
            make_directory(os.path.join(path, part), 0o700, os.geteuid(), os.getegid(), sync=False)
        backup = _snapshots(request, holder, path)
        backup = _manifests(request, backup)
        sync_filesystem(path)
        store(backup)
        sync_directory(request.directory)
        return backup
    except BaseException:
        remove(request.directory, request.name)
        raise


def _snapshots(request: Request, holder: str, path: str) -> Backup:
    btrfs.snapshot(holder, os.path.join(path, "homes"))
    inside = os.path.relpath(request.root, holder)
    backup = Backup(request.name, path, now(), request.root, inside, {})
    nested: dict[str, dict[str, str]] = {}
    for number, relative in enumerate(btrfs.nested(holder)):
        below = os.path.relpath(relative, inside)
        name, _, rest = below.partition("/")
        if name.startswith("."):  # beside the homes, or what is being wiped
            continue
        where = f"nested/{number}"
        btrfs.snapshot(os.path.join(holder, relative), os.path.join(path, where))
        nested.setdefault(name, {})[rest] = where
    problems = leftovers.problems(request.root)
    found: dict[str, Home] = {}
    top = os.path.normpath(os.path.join(path, "homes", inside))
    for name, entry in sorted(homes.scan(top).items()):
        if name.startswith("."):
            continue
        if home_owner(name) is None or entry.kind != "directory":
            problems[shown(name)] = f"is a {entry.kind}" if home_owner(name) else "is not a user name"
            continue
        own = nested.get(name, {})
        source = os.path.join(path, own[""]) if "" in own else os.path.join(top, name)
        facts = os.lstat(source)
        volume = btrfs.subvolume(os.path.join(request.root, name)) if "" in own else None
        found[name] = Home(facts.st_uid, facts.st_ino, volume.uuid if volume else "", 0, 0, 0, "", own)
    return replace(backup, homes=found, problems=problems)


def _earlier(request: Request, name: str, uid: int) -> Iterator[home_manifest.Line] | None:
    """The newest manifest of the same person's home: what has not changed since is not read again."""
    for backup in reversed(complete(request.directory)):
        home = backup.homes.get(name)
        if home is not None and home.uid == uid and backup.root == request.root:
            return home_manifest.read(backup.manifest(name))
    return None


def _write_manifest(task: tuple[Request, Backup, str]) -> tuple[str, home_manifest.Total | None, str | None]:
    import gzip

    request, backup, name = task
    top, nested = source(backup, name)
    try:
        earlier = _earlier(request, name, backup.homes[name].uid)
        with gzip.open(backup.manifest(name), "wt", compresslevel=1, encoding="ascii") as stream:
            return name, home_manifest.total(home_manifest.lines(top, nested, earlier=earlier), stream.write), None
    except NodeError as error:
        return name, None, str(error)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return name, None, str(error)


def _each(function, tasks, workers):  # type: ignore[no-untyped-def]
    """Map over tasks, by several processes where there are several tasks; a home is the unit."""
    if workers < 2 or len(tasks) < 2:
        return [function(task) for task in tasks]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(function, tasks))


def _manifests(request: Request, backup: Backup) -> Backup:
    found: dict[str, Home] = {}
    problems = dict(backup.problems)
    tasks = [(request, backup, name) for name in backup.homes]
    for name, sum_, problem in _each(_write_manifest, tasks, request.workers):
        if sum_ is None:
            problems[name] = problem
        else:
            found[name] = replace(backup.homes[name], **sum_.as_dict())
    return replace(backup, homes=found, problems=problems)


def _differences(task: tuple[Backup, str]) -> tuple[str, list[str]]:
    backup, name = task
    top, nested = source(backup, name)
    home = backup.homes[name]
    try:
        recorded = home_manifest.total(home_manifest.read(backup.manifest(name)))
        if recorded.checksum != home.checksum:
            return name, ["its manifest is not the one that was recorded"]
        found = home_manifest.total(home_manifest.lines(top, nested))
        if found.checksum == home.checksum:
            return name, []
        return name, home_manifest.compare(
            home_manifest.read(backup.manifest(name)), home_manifest.lines(top, nested)
        ) or ["differs"]
    except (NodeError, OSError) as error:
        return name, [str(error)]


def verify(backup: Backup, wanted: Sequence[str], workers: int = 2, *, again: bool = False) -> Backup:
    """Read homes in a set and hold them against their manifests; record when each was found to be the same.

    Raises NodeError that says which are not; the others are recorded.
    """
    tasks = [(backup, name) for name in wanted if again or backup.homes[name].verified is None]
    if not tasks:
        return backup
    bad: dict[str, list[str]] = {}
    found = dict(backup.homes)
    for name, differences in _each(_differences, tasks, workers):
        when = None if differences else now()
        found[name] = replace(found[name], verified=when)
        if differences:
            bad[name] = differences
    result = replace(backup, homes=found)
    store(result)
    if bad:
        words = "; ".join(f"{name}: {', '.join(lines)}" for name, lines in sorted(bad.items()))
        raise NodeError(f"{backup.name} is damaged: {words}")
    return result

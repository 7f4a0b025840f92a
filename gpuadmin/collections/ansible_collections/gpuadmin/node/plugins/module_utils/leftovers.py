"""What a wipe left because no backup had it: found, packed into archives, and only then deleted.

It lies under ``.gpuadmin-wiping/BACKUP/USER`` in the home root, where no later backup looks. An archive is read back
and compared before anything goes, and what was changed since it was begun stays.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from . import backup_set, btrfs, homes, mounts
from .backup_set import NAME, TRASH
from .descend import walk
from .errors import NodeError
from .fields import shown, valid_name
from .files import flocked, sync_directory, sync_filesystem
from .purge import Entry, Purged, enter, purge

LOCK = "/run/gpuadmin/homes.lock"


@dataclass(frozen=True)
class Request:
    """``only``: those that were decided, as BACKUP/USER; None: all. ``archive``: the directory of archives."""

    root: str
    archive: str
    only: Sequence[str] | None = None
    mountpoint: str | None = None


@dataclass(frozen=True)
class Leftover:
    """What is left of somebody's home. ``bytes``: of regular files, a further hard link counts again."""

    backup: str
    user: str
    uid: int
    entries: int
    bytes: int

    @property
    def name(self) -> str:
        return f"{self.backup}/{self.user}"

    @property
    def operation(self) -> str:
        return (
            f"pack what is left of {self.user} ({self.name}: {self.entries} entries, {self.bytes} bytes), and delete it"
        )


def names(root: str) -> list[str]:
    """What is out of sight and not deleted, as BACKUP/USER."""
    place = os.path.join(root, TRASH)
    if not os.path.isdir(place):
        return []
    return sorted(f"{one}/{name}" for one in os.listdir(place) for name in os.listdir(os.path.join(place, one)))


def problems(root: str) -> dict[str, str]:
    """The same, as what a backup says that it does not hold."""
    return {
        shown(f"{TRASH}/{one}"): "is what a wipe left because its backup lacks it (gpuadmin clear-leftovers)"
        for one in names(root)
    }


def _path(request: Request, name: str) -> str:
    return os.path.join(request.root, TRASH, name)


def observe(request: Request) -> list[Leftover]:
    """What is left, as far as it was asked for. Raises NodeError where the home root is not what it should be."""
    table = mounts.read_mountinfo()
    if not homes.check_root(homes.Request(request.root, mountpoint=request.mountpoint), table):
        raise NodeError(f"there is no {request.root}")
    found = []
    for name in names(request.root):
        backup, _, user = name.partition("/")
        if (request.only is not None and name not in request.only) or not NAME.match(backup) or not valid_name(user):
            continue
        path = _path(request, name)
        facts = os.lstat(path)
        entries, size = _count(path) if stat.S_ISDIR(facts.st_mode) else (1, facts.st_size)
        found.append(Leftover(backup, user, facts.st_uid, entries, size))
    return found


def _count(path: str, *, archived: bool = False) -> tuple[int, int]:
    """Entries with the directory itself, and bytes of regular files; ``archived``: without sockets, as tar does."""
    entries, size = 1, 0
    handle = btrfs.open_directory(path)
    try:
        for entry in walk(handle, enter):
            if archived and stat.S_ISSOCK(entry.facts.st_mode):
                continue
            entries += 1
            size += entry.facts.st_size if stat.S_ISREG(entry.facts.st_mode) else 0
    finally:
        os.close(handle)
    return entries, size


def clear(request: Request) -> dict[str, dict[str, object]]:
    """Pack and delete; return for each where its archive is and what could not be deleted."""
    done: dict[str, dict[str, object]] = {}
    with flocked(LOCK):
        for one in observe(request):
            begun = time.time_ns()
            archive = _pack(request, one)
            deleted = _delete(request, one, begun)
            done[one.name] = {"archive": archive, **deleted.as_dict()}
    return done


def _pack(request: Request, one: Leftover) -> str:
    path = _path(request, one.name)
    inside = mounts.below(path, mounts.parse_mountinfo(mounts.read_mountinfo()))
    if inside:
        raise NodeError(f"{inside[0].point} is mounted inside of what is left of {one.user}: kept")
    os.makedirs(request.archive, mode=0o700, exist_ok=True)
    backup_set.check_directory(request.archive)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    final = os.path.join(request.archive, f"{one.user}-{one.uid}-{stamp}-leftover.tar.gz")
    part = final + ".part"
    if os.path.lexists(final):
        raise NodeError(f"{final} is there already; run this again")
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    try:
        for action in ("--create", "--compare"):
            _tar(action, "--acls", "--xattrs", part, request, one)
        entries, _bytes = _count(path, archived=True) if os.path.isdir(path) else (1, 0)
        if len(_tar("--list", "--quoting-style=escape", "--gzip", part, request, one).splitlines()) != entries:
            raise NodeError(f"the archive does not hold all that is left of {one.user} (is it written in?): kept")
        sync_filesystem(part)
    except BaseException:
        os.unlink(part)
        raise
    os.rename(part, final)
    sync_directory(request.archive)
    return final


def _tar(action: str, first: str, second: str, archive: str, request: Request, one: Leftover) -> str:
    above, name = os.path.split(_path(request, one.name))
    members = () if action == "--list" else (f"--directory={above}", f"./{name}")
    command = ("tar", action, "--gzip", "--numeric-owner", first, second, f"--file={archive}", *members)
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                            check=False)  # fmt: skip
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()[-300:]
        raise NodeError(f"'{' '.join(command)}' ended with {result.returncode}: {said}; nothing was deleted")
    return result.stdout


def _delete(request: Request, one: Leftover, begun: int) -> Purged:
    def judge(entry: Entry) -> str | None:
        if entry.is_directory:
            return None  # what is in it decides
        return None if entry.facts.st_ctime_ns < begun else "was changed while it was packed"

    place = os.path.dirname(_path(request, one.name))
    handle = btrfs.open_directory(place)
    try:
        deleted = purge(handle, os.fsencode(one.user), judge)
    finally:
        os.close(handle)
    backup_set.leave_trash(place)
    return deleted

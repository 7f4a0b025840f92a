"""What a semester's end has to know of a host before anything is decided. It only looks."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuadmin.common.records.people import HomeEntry

from .. import btrfs, mounts, qgroups
from ..backups import accounting, backup_set
from ..errors import NodeError
from ..fields import home_owner
from ..homes import attic, trash
from ..homes import directories as homes
from ..homes.shared import AMONG_HOMES
from ..limits.amounts import OF_HOMES
from ..logins import sessions
from ..people import Person
from . import scratch

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    with open(BOOT_ID, encoding="ascii") as stream:
        return stream.read().strip()


def of_homes(root: str, mountpoint: str | None, mountinfo: str) -> dict[str, HomeEntry]:
    """Every entry of the home root: kind, owner, what keeps it from being wiped, and whose it is by its name."""
    if not homes.check_root(root, mountpoint, mountinfo):
        raise NodeError(f"there is no {root}")
    table = mounts.parse_mountinfo(mountinfo)
    found = {}
    for name, entry in sorted(homes.scan(root).items()):
        if name in (trash.TRASH, attic.ATTIC, ".gpuadmin-restoring", accounting.NAME, OF_HOMES, qgroups.DESK):
            continue
        if name.startswith(AMONG_HOMES):  # guard: what people share is nobody's home, and no reset deletes it
            continue
        inside = mounts.below(os.path.join(root, name), table)
        problem = f"{inside[0].point} is mounted inside" if inside else None
        found[os.fsencode(name).decode("utf-8", "backslashreplace")] = HomeEntry(
            entry.kind, entry.uid, problem, home_owner(name)
        )
    return found


def of_backups(directory: str) -> list[backup_set.Backup]:
    """The complete sets, oldest first."""
    backup_set.check_directory(directory)  # guard: a reset believes backups of root's alone
    return backup_set.complete(directory)


def free(path: str) -> int:
    """Bytes that are free where a path is or would be."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize


def identities(names: Sequence[str]) -> dict[str, int]:
    """uids by what the host's NSS says; who is not known is left out."""
    found = {}
    for name in names:
        try:
            found[name] = pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return found


def collect(
    people: Sequence[Person],
    *,
    home_root: str | None = None,
    mountpoint: str | None = None,
    backup_directory: str | None = None,
    directories: Sequence[str] = (),
    docker: str | None = None,
    names: Sequence[str] = (),
    processes: Callable[[], Sequence[sessions.Process]] = sessions.processes,
) -> Mapping[str, Any]:
    """All of it; what a host does not have is left out by its argument."""
    found: dict[str, Any] = {"at": backup_set.now(), "boot": boot_id()}
    if home_root is not None:
        found["homes"] = of_homes(home_root, mountpoint, mounts.read_mountinfo())
        found["waiting"] = trash.names(home_root)
    if home_root is not None:
        try:
            btrfs.holder(home_root)
        except NodeError as error:
            found["no_snapshots"] = str(error)
    if backup_directory is not None:
        found["backups"] = of_backups(backup_directory)
        found["free"] = free(backup_directory)
    if directories or docker:
        found["scratch"] = scratch.observe(directories, docker, people)
    found["processes"] = dict(sessions.counts(people, processes()))
    if names:
        found["identities"] = identities(names)
    return found

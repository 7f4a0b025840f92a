"""The snapshots that a backup consists of: one of all homes, and one of each subvolume in a home."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace

from gpuadmin.common.records.people import Home

from .. import btrfs
from ..errors import NodeError, in_words
from ..fields import home_owner, quoted
from ..homes import directories
from . import backup_set
from .backup_set import Backup

NAMES = 1 << 16  # bytes of the paths of a home's subvolumes: backup.json has them, and so has each line from inside
SUBVOLUMES = 1000  # of one home; each is a snapshot, and takes its owner a tenth of the time that it takes root
TICK = 10**9  # nanoseconds; more than the clock that files have their times from lags behind


def snapshots(root: str, holder: str, path: str, label: str) -> Backup:
    """Make the snapshots of the set ``label`` in the directory ``path``: of the homes below ``root``, in ``holder``.

    Returns its record, with no home read yet. What is wrong with one home is in ``problems``.
    """
    inside = os.path.relpath(root, holder)
    problems: dict[str, str] = {}
    begun = time.time_ns() - TICK
    source = btrfs.open_directory(holder)
    try:
        btrfs.snapshot(source, os.path.join(path, "homes"))
        nested = _nested(source, inside, path, problems)
    finally:
        os.close(source)
    backup = Backup(label, backup_set.now(), {}, {}, {}, path, root, inside, begun=begun)
    found: dict[str, Home] = {}
    top = os.path.normpath(os.path.join(path, "homes", inside))
    for name, entry in sorted(directories.scan(top).items()):
        if name.startswith(".") or name in problems:
            continue
        if home_owner(name) is None or entry.kind != "directory":
            problems[quoted(name)] = f"is a {entry.kind}" if home_owner(name) else "is not a user name"
            continue
        own = nested.get(name, {})
        try:
            facts = os.lstat(os.path.join(path, own[""]) if "" in own else os.path.join(top, name))
            volume = btrfs.subvolume(os.path.join(root, name)) if "" in own else None
        except OSError as error:
            problems[name] = f"was changed while it was looked at: {error.strerror}"
            continue
        found[name] = Home(facts.st_uid, 0, 0, "", None, facts.st_ino, volume.uuid if volume else "", 0, own)
    return replace(backup, homes=found, problems=problems)


def _key(name: str) -> str:
    """What a home is called in ``problems``: by its name, if it is one."""
    return name if home_owner(name) else quoted(name)


def _nested(holder: int, inside: str, path: str, problems: dict[str, str]) -> dict[str, dict[str, str]]:
    """Snapshots of the subvolumes in homes: home → path in it → path in the set.

    One that cannot be made is its home's problem. A subvolume that came to its place after the snapshot around it was
    made is not in the backup, which has what was there before.
    """
    made: dict[str, dict[str, str]] = {}
    count: dict[str, int] = {}
    length: dict[str, int] = {}

    def wanted(relative: str) -> bool:
        name = os.path.relpath(relative, inside).partition("/")[0]
        if name.startswith("."):  # beside the homes, or what is being wiped
            return False
        count[name] = count.get(name, 0) + 1
        if count[name] > SUBVOLUMES:  # guard: a home has so many subvolumes and no more
            problems[_key(name)] = f"holds more than {SUBVOLUMES} subvolumes"
            return False
        # guard: the paths of a home's subvolumes have a limit
        if length.get(name, 0) + len(os.fsencode(relative)) > NAMES:
            problems[_key(name)] = f"holds subvolumes at paths of more than {NAMES} bytes together"
            return False
        length[name] = length.get(name, 0) + len(os.fsencode(relative))
        return True

    for number, relative in enumerate(btrfs.nested(holder, wanted)):
        name, _, rest = os.path.relpath(relative, inside).partition("/")
        where = f"nested/{number}"
        # guard: a subvolume is in a backup where it has a place
        if not _has_place(relative, inside, path, made.get(name, {})):
            continue
        try:
            source = btrfs.open_deep(relative, holder)
            try:
                btrfs.snapshot(source, os.path.join(path, where))
            finally:
                os.close(source)
        except (NodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            problems[_key(name)] = f"holds a subvolume that cannot be saved: {in_words(error)}"
            continue
        made.setdefault(name, {})[rest] = where
    return made


def _has_place(relative: str, inside: str, path: str, made: dict[str, str]) -> bool:
    """Whether the snapshot around a subvolume has the empty directory that stands for it."""
    rest = os.path.relpath(relative, inside).partition("/")[2]
    around = max((one for one in made if not one or rest.startswith(one + "/")), key=len, default=None)
    top, below = ("homes", relative) if around is None else (made[around], os.path.relpath(rest, around or "."))
    handle = btrfs.open_directory(os.path.join(path, top))
    try:
        return btrfs.is_placeholder(below, handle)
    finally:
        os.close(handle)

"""What a wipe left because no backup had it: found, packed into archives, and only then deleted.

It is in ``.gpuadmin-wiping/BACKUP/USER`` in the home root, where no later backup looks. An archive is read back
and compared before anything goes, and what was changed since it was begun stays.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from gpuadmin.common.records.people import Purged
from gpuadmin.common.records.wipes import ClearLeftovers as Request
from gpuadmin.common.text import counted

from .. import btrfs, mounts
from ..backups import backup_set
from ..backups.backup_set import NAME
from ..budget import Budget
from ..errors import NodeError, in_words
from ..fields import home_owner
from ..files import flocked
from ..homes import directories, packing
from ..homes.directories import LOCK
from ..homes.trash import TRASH, names
from ..safe_walk import same_mount, walk

COUNTING = 600.0  # seconds for counting what is left of one home, which is for the eye alone


@dataclass(frozen=True)
class Leftover:
    """What is left of somebody's home. ``bytes``: of regular files, a further hard link counts again."""

    backup: str
    user: str
    uid: int
    entries: int
    bytes: int
    problem: str | None = None  # why it could not be counted

    @property
    def name(self) -> str:
        return f"{self.backup}/{self.user}"

    @property
    def operation(self) -> str:
        size = self.problem or f"{counted(self.entries, 'entry', 'entries')}, {counted(self.bytes, 'byte')}"
        return f"pack what is left of {self.user} ({self.name}: {size}), and delete it"


def _path(request: Request, name: str) -> str:
    return os.path.join(request.root, TRASH, name)


def observe(request: Request) -> list[Leftover]:
    """What is left, as far as it was asked for. Raises NodeError if the home root is not what it should be."""
    table = mounts.read_mountinfo()
    # guard: leftovers are below a mount that is there
    if not directories.check_root(request.root, request.mountpoint, table):
        raise NodeError(f"there is no {request.root}")
    found = []
    for name in names(request.root):
        backup, _, user = name.partition("/")
        # guard: what is out of sight is packed as the rest of a home where its name says so
        if not NAME.match(backup) or home_owner(user) is None:
            continue
        if request.only is not None and name not in request.only:
            continue
        path = _path(request, name)
        try:
            facts = os.lstat(path)
        except FileNotFoundError:
            continue
        try:
            entries, size = _count(path) if stat.S_ISDIR(facts.st_mode) else (1, facts.st_size)
            found.append(Leftover(backup, user, facts.st_uid, entries, size))
        except (NodeError, OSError) as error:
            found.append(Leftover(backup, user, facts.st_uid, 0, 0, f"not counted: {in_words(error)}"))
    return found


def _count(path: str) -> tuple[int, int]:
    """Entries with the directory itself, and bytes of regular files."""
    entries, size = 1, 0
    handle = btrfs.open_directory(path)
    try:
        for entry in walk(
            handle,
            same_mount,
            budget=Budget(COUNTING, setting=False),  # guard: counting leftovers has a budget
        ):
            entries += 1
            size += entry.facts.st_size if stat.S_ISREG(entry.facts.st_mode) else 0
    finally:
        os.close(handle)
    return entries, size


def clear(request: Request) -> dict[str, dict[str, object]]:
    """Pack and delete; return for each where its archive is (None: it was not packed) and what could not be deleted.

    What cannot be packed is kept and named, and the others are packed. Nobody's new home waits for that.
    """
    done: dict[str, dict[str, object]] = {}
    for one in observe(request):  # no lock: it counts what somebody made, and that may take long
        archive, deleted = None, Purged(0, 0, [])
        try:
            archive = _pack(request, one)
            deleted = _delete(request, one, archive)
        except (NodeError, OSError) as error:
            deleted.kept += 1  # guard: what could not be packed is not said to have gone
            deleted.words.append(in_words(error))
        done[one.name] = {"archive": archive, **vars(deleted)}
    return done


def _pack(request: Request, one: Leftover) -> str:
    target = packing.archive_path(request.archive, one.user, one.uid, "-leftover")
    backup_set.check_directory(request.archive)  # guard: leftovers are packed where root alone can enter
    packing.clear_debris(request.archive, one.user, one.uid, "-leftover")
    packing.pack(_path(request, one.name), target)
    return target


def _delete(request: Request, one: Leftover, archive: str) -> Purged:
    path = _path(request, one.name)
    deleted = packing.delete(path, archive)
    # guard: the trash is taken away under the lock
    with flocked(LOCK):  # a wipe may just be making these directories
        backup_set.leave_trash(os.path.dirname(path))
    return deleted

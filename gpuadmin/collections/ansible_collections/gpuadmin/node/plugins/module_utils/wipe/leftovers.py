"""What a wipe left because no backup had it: found in ``.gpuadmin-wiping/BACKUP/USER``, and moved to the attic."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gpuadmin.common.records.wipes import Cleared
from gpuadmin.common.records.wipes import ClearLeftovers as Request

from .. import mounts
from ..backups import backup_set
from ..backups.backup_set import NAME
from ..errors import NodeError, in_words
from ..fields import home_owner
from ..files import flocked
from ..homes import attic, directories
from ..homes.directories import LOCK
from ..homes.trash import TRASH, names


@dataclass(frozen=True)
class Leftover:
    """What is left of somebody's home."""

    backup: str
    user: str
    uid: int

    @property
    def name(self) -> str:
        return f"{self.backup}/{self.user}"

    @property
    def operation(self) -> str:
        return f"move what is left of {self.user} ({self.name}) to the attic"


def observe(request: Request) -> list[Leftover]:
    """What is left. Raises NodeError if the home root is not what it should be."""
    table = mounts.read_mountinfo()
    # guard: leftovers are below a mount that is there
    if not directories.check_root(request.root, request.mountpoint, table):
        raise NodeError(f"there is no {request.root}")
    found = []
    for name in names(request.root):
        backup, _, user = name.partition("/")
        # guard: what is out of sight is the rest of a home where its name says so
        if not NAME.match(backup) or home_owner(user) is None:
            continue
        try:
            uid = os.lstat(os.path.join(request.root, TRASH, name)).st_uid
        except FileNotFoundError:
            continue
        found.append(Leftover(backup, user, uid))
    return found


def clear(request: Request) -> dict[str, Cleared]:
    """Move each to the attic; return where it is now. What cannot be moved stays, is named, and the others go."""
    # guard: the trash is taken away under the lock
    with flocked(LOCK):  # a wipe may just be making these directories
        return {one.name: _clear(request.root, one) for one in observe(request)}


def _clear(root: str, one: Leftover) -> Cleared:
    place = None
    try:
        place = attic.move(root, os.path.join(TRASH, one.name), one.user, one.uid, "-leftover")
        backup_set.leave_trash(os.path.join(root, TRASH, one.backup))
        return Cleared(place)
    except (NodeError, OSError) as error:  # guard: one that cannot be moved keeps no other
        return Cleared(place, in_words(error))

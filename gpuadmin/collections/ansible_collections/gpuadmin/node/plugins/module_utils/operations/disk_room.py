"""gpuadmin.node.disk_room: room on disks that people cannot fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..answer import Answer
from ..limits import room
from ..limits.room import Places, Rooms

#: A task of this role need not name a field that the role has a variable for.
ROLE = "limits"


@dataclass(frozen=True)
class Document:
    """Keep room on disks for root, whatever people write.

    On btrfs all subvolumes that people fill get one limit, below what the file system has. On ext4 it looks whether
    blocks are reserved; other file systems keep nothing, which is reported.
    """

    #: How much is kept: a share of the file system (``5%``), a size, or ``0`` for nothing.
    disk_reserve: str
    #: Directories that people fill.
    disk_paths: Sequence[str]


def operate(document: Document, check: bool, places: Places | None = None) -> Answer:
    kept = room.keep(places or Places(), Rooms(document.disk_reserve, list(document.disk_paths)), check=check)
    return Answer(kept.done, {"problems": kept.notes}, kept.problems)

"""Operations on limits: of a node's resources and disks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.common.records.limits import NodeLimits

from ..answer import Answer
from ..operation import operation
from . import applying, room
from .room import Places, Rooms


@operation("limits", NodeLimits, role="limits")
def apply_limits(document: NodeLimits, check: bool, places: applying.Places | None = None) -> Answer:
    where = places or applying.Places()
    wanted = document if document.enabled else None
    recorded = applying.record(wanted, where, check)  # first: the next boot finishes what a power cut interrupts
    outcome = applying.apply(where, wanted, check=check, given=True)
    done = outcome.done or ["what the next boot applies"] * recorded
    missing = applying.missing(where) if document.enabled else []
    words = f"cgroup v2 of this kernel has no controller {', '.join(missing)}: people's use of that is not limited here"
    return Answer(done, {"problems": [words] if missing else []}, outcome.problems)


@dataclass(frozen=True)
class DiskRoom:
    """Keep room on disks for root, whatever people write.

    On btrfs all subvolumes that people fill get one limit, below what the file system has. On ext4 it looks whether
    blocks are reserved; other file systems keep nothing, which is reported.
    """

    #: How much is kept: a share of the file system (``5%``), a size, or ``0`` for nothing.
    disk_reserve: str
    #: Directories that people fill.
    disk_paths: Sequence[str]


@operation("disk_room", DiskRoom, role="limits")
def keep_room(document: DiskRoom, check: bool, places: Places | None = None) -> Answer:
    kept = room.keep(places or Places(), Rooms(document.disk_reserve, list(document.disk_paths)), check=check)
    return Answer(kept.done, {"problems": kept.notes}, kept.problems)

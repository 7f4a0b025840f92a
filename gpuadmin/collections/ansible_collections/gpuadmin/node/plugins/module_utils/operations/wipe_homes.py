"""gpuadmin.node.wipe_homes: wiping homes that are in a verified backup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .. import background
from ..answer import Answer
from ..wipe import homes
from ..wipe.jobs import empty_trash


@dataclass(frozen=True)
class Document:
    """Wipe homes that are in a verified backup.

    Moves each home out of sight by one rename, so that it is empty for its owner at once, and then deletes what
    the backup has.
    A home that is not the very directory that the backup holds is kept and reported. So is a file that was
    changed after the backup.
    The deleting runs in the unit ``gpuadmin-wipe-homes.service``, which goes on when the controller is
    interrupted.
    """

    #: Directory of homes.
    root: str
    #: Directory of backups.
    directory: str
    #: Name of the verified backup.
    backup: str
    #: What goes.
    users: Sequence[Mapping[str, Any]]
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None


EACH = "homes"


def operate(document: Document, check: bool) -> Answer:
    given = asdict(document)
    plan = homes.converge(
        homes.Request(**given),
        check=check,  # guard: check mode moves no home -> False
    )
    if check:  # guard: check mode empties no trash
        return Answer.of(plan)
    return Answer.of(plan, deleted=background.perform("wipe-homes", empty_trash, {**given, "users": []}))

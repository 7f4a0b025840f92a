"""gpuadmin.node.leftovers: what a wipe left because no backup had it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .. import background
from ..answer import Answer
from ..wipe import leftovers
from ..wipe.jobs import clear_leftovers


@dataclass(frozen=True)
class Document:
    """Pack what a wipe left, and delete it.

    What was changed after the backup is not deleted by a wipe; it stays, out of sight, in the home root.
    This packs it into archives that root alone can read, reads them back, compares them, and only then deletes
    it.
    The work runs in the unit ``gpuadmin-clear-leftovers.service``, which goes on when the controller is
    interrupted.
    """

    #: Directory of homes.
    root: str
    #: Directory of archives.
    archive: str
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None
    #: What is packed, as BACKUP/USER; without it all.
    only: Optional[Sequence[str]] = None


EACH = "cleared"


def operate(document: Document, check: bool) -> Answer:
    given = asdict(document)
    found = leftovers.observe(leftovers.Request(**given))
    cleared: dict[str, Any] = {}
    if (
        found
        # guard: check mode clears no leftovers
        and not check
    ):
        done: Any = background.perform(
            "clear-leftovers", clear_leftovers, {**given, "only": [one.name for one in found]}
        )
        cleared = dict(done)
    problems = [f"{name}: {word}" for name, one in cleared.items() for word in one["words"]]
    kept = [f"{name}: {', '.join(one['words'])}" for name, one in cleared.items() if one["archive"] is None]
    operations = [one.operation for one in found if cleared.get(one.name, {}).get("archive", "") is not None]
    return Answer(operations, {"cleared": cleared, "problems": problems}, kept)

"""Deleting the backups of a host that the policy drops."""

from __future__ import annotations

from collections.abc import Sequence

from ..documents import to_plain
from ..errors import NodeError, in_words
from . import backup_set, received, retention
from .backup_set import InUse

FOR_EVER = 36500  # days: what a reset or an admin made goes only when an admin says so


def expired(directory: str, days: int, ordinary: int, only: Sequence[str] | None = None) -> list[str]:
    """Sets that the policy drops; ``only``: those that were decided before, of which some may now have to stay."""
    sets = backup_set.complete(directory)
    views = [retention.view(to_plain(one), received.arrived(one.path)) for one in sets]
    gone = retention.expired(views, days=days, ordinary=ordinary, now=retention.moment(backup_set.now()))
    return [
        name
        for name in gone
        if only is None or name in only  # guard: a backup that was not decided on stays
    ]


def prune(directory: str, days: int, ordinary: int, only: Sequence[str] | None = None) -> list[str]:
    """Delete them; return their names. Raises NodeError for those that would not go, when the others are gone.

    That is InUse where nothing else is wrong than that somebody reads them: they go the next time.
    """
    gone, problems = [], []
    kind: type[NodeError] = InUse
    for name in expired(directory, days, ordinary, only):
        try:
            backup_set.remove(directory, name)
            gone.append(name)
        except (NodeError, OSError) as error:
            kind = kind if isinstance(error, InUse) else NodeError
            problems.append(f"{name}: {in_words(error)}")
    if problems:
        raise kind(f"deleted {', '.join(gone) or 'none'}; not deleted: {'; '.join(problems)}")
    return gone

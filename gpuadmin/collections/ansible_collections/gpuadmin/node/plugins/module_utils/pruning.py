"""Deleting the backups of a host that the policy lets go."""

from __future__ import annotations

from collections.abc import Sequence

from . import backup_set, retention
from .files import flocked

FOR_EVER = 36500  # days: what a reset or an admin made goes only when an admin says so


def expired(directory: str, days: int, ordinary: int, only: Sequence[str] | None = None) -> list[str]:
    """Sets that the policy lets go; ``only``: those that were decided before, of which some may now have to stay."""
    views = [retention.view(one.as_dict()) for one in backup_set.complete(directory)]
    gone = retention.expired(views, days=days, ordinary=ordinary, now=retention.moment(backup_set.now()))
    return [name for name in gone if only is None or name in only]


def prune(directory: str, days: int, ordinary: int, only: Sequence[str] | None = None) -> list[str]:
    """Delete them; return their names."""
    with flocked(backup_set.LOCK):
        gone = expired(directory, days, ordinary, only)
        for name in gone:
            backup_set.remove(directory, name)
    return gone

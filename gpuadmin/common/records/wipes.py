"""Orders to delete people's data: homes, leftovers of a wipe, and scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .people import PersonEntry, ScratchItem


@dataclass(frozen=True)
class WipeHomes:
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
    #: {name, uid} of homes that go, and of what restores made beside them; each is checked by itself.
    users: Sequence[Mapping[str, Any]]
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None


@dataclass(frozen=True)
class ClearLeftovers:
    """Move what a wipe left to the attic.

    A wipe does not delete files that were changed after the backup; they stay, out of sight, in the home root.
    This renames them to ``.gpuadmin-attic/USER-UID-TIME-leftover`` there, where root alone can enter.
    """

    #: Directory of homes.
    root: str
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None


@dataclass(frozen=True)
class Cleared:
    """Where the leftover of a wipe is in the attic (None: it stays where it was), and what went wrong."""

    attic: Optional[str]
    problem: Optional[str] = None


@dataclass(frozen=True)
class WipeScratch:
    """Wipe people's Docker data and scratch on a node.

    Takes the entries that were decided; each goes only if it is still the same thing of the same owner.
    What belongs to somebody else stays, also inside of an entry that goes. Nothing of this is in a backup.
    The work runs in the unit ``gpuadmin-wipe-scratch.service``, which goes on when the controller is
    interrupted.
    """

    #: The people. Names and uids differ, and ranges of subordinate ids do not overlap. Where one of them is
    #: refused nothing is done for anybody, because who owns what would not be certain.
    people: Sequence[PersonEntry]
    #: The entries that go, as ``gpuadmin.node.term_facts#module:report`` has them. An entry that is not the same any
    #: more, or that nobody of ``people`` owns, is reported and stays; the others go.
    items: Sequence[ScratchItem]
    #: The directories in which anything may go at all.
    directories: Sequence[str]

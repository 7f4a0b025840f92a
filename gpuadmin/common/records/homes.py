"""Orders for homes on the storage host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional


@dataclass(frozen=True)
class SharedDirectory:
    """What several people share. ``gid``: None for what the host knows of ``group``. ``backup``: it is among the
    homes, so that backups have it. ``size``: as settings have it (``2T``, ``unlimited``)."""

    name: str
    path: str
    group: str
    gid: Optional[int] = None
    size: str = "unlimited"
    backup: bool = True


@dataclass(frozen=True)
class HomesOrder:
    """Make homes from a skeleton, and move homes that are to go to the attic.

    Makes all missing homes in one call. A home is built beside its name, given to its owner, synced and
    renamed.
    Refuses to write where the disk is not mounted.
    A home of another owner, and a uid that owns another home or is remembered as somebody else's, are reported
    and left alone.
    A home that is to go is renamed to ``.gpuadmin-attic/NAME-UID-TIME`` in ``root``, where root alone can enter.
    """

    #: Directory of homes.
    root: str
    #: Mount point that must be mounted. Without it the mount of ``root`` must not be the root file system.
    mountpoint: Optional[str] = None
    #: The homes to have, a list of mappings or the same as JSON. ``name``, the login name, needed. ``uid``,
    #: the owner of the home; without it the one that this host's directory says. ``gid``, the group of the
    #: home; without it the number of ``uid``. People who are ``locked`` get none. After a reset a new, empty home
    #: would be where the old one was wiped.
    users: Any = ()
    #: Directory whose content a new home starts with.
    skeleton: str = "/etc/skel"
    #: Make each home a btrfs subvolume.
    subvolume: bool = False
    #: Homes to move to the attic, if they are that uid's.
    archive: Any = ()
    #: Directory of the archives that an earlier gpuadmin made.
    archive_directory: Optional[str] = None
    #: Whose uids these are; the host remembers it, whatever happens to the site. An entry that has no name
    #: and number is not remembered.
    remember: Any = ()
    #: Names whose uids are free again; one that a home, the attic or an archive carries is not forgotten.
    forget: Sequence[str] = ()
    #: Directories that several people share. What is there and not in this list stays, and is reported.
    shared: Sequence[SharedDirectory] = ()


@dataclass(frozen=True)
class FormerOrder:
    """Let go of homes that another host serves from now on, or look who has files there.

    Nobody waits for a server that is away. It fails where that one still serves. The report has who held what.
    """

    #: The address of the host that serves no more.
    server: str
    #: The directory that it exported from.
    above: str

"""Orders to make, verify, copy and prune backups, and to restore a home from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Optional


@dataclass(frozen=True)
class BackupHost:
    """The host of the second copies."""

    #: Its name in the inventory.
    host: str
    #: Its address on the cluster's own network.
    address: str
    #: The private key on this host, and the file that holds the other host's key.
    key: str
    known_hosts: str
    port: int = 22
    #: The address that this host calls from.
    source: Optional[str] = None


@dataclass(frozen=True)
class BackupOrder:
    """Make, verify, copy and prune backups of the homes.

    A backup is a read-only snapshot with a manifest of every home, and is one only when it is complete.
    All work runs in units ``gpuadmin-backup-*.service``, which go on when the controller is interrupted and are
    waited for by the next run. The timer's units have it in backups.json, which the role writes.
    """

    #: Directory of backups.
    directory: str
    #: The thing to do.
    action: Literal["make", "verify", "copy", "prune"] = "make"
    #: Name of the backup. Without it ``action=verify`` and ``action=copy`` take the newest.
    name: str = ""
    #: Directory of homes, for ``action=make``.
    root: str = ""
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None
    #: Whether the homes have a dump of Slurm's accounting, for ``action=make``.
    accounting: bool = False
    #: The people whose homes are verified (read a second time and compared); without it everybody.
    users: Optional[Sequence[str]] = None
    #: The number of homes that are read at once: a slow one does not hold up all others, and disks still serve people.
    workers: int = 2
    #: How long one home may take to be read; a home that takes longer is a problem, and the others go on.
    home_seconds: int = 21600
    #: How many entries one home may hold; a path counts once more for each KiB of it.
    home_entries: int = 20_000_000
    #: The host for ``action=copy``.
    remote: Optional[BackupHost] = None
    #: How long a backup stays, for ``action=prune``.
    days: int = 183
    #: How many of the timer's backups stay, for ``action=prune``.
    ordinary: int = 14
    #: The backups that were decided to go, for ``action=prune``.
    only: Optional[Sequence[str]] = None
    #: One word for this run of gpuadmin, the same where Ansible asks once more because ssh broke.
    run_id: str = ""


@dataclass(frozen=True)
class PromoteOrder:
    """Serve homes from writable snapshots of the second copies that are here, in place of the host that sent them.

    What is in the homes' place keeps another name. The work runs in the unit ``gpuadmin-promote.service``.
    """

    #: Directory of homes.
    root: str
    #: Directory of second copies.
    directory: str
    #: The name of the host that served the homes.
    former: str
    #: Home → the name of the copy that it is made from.
    homes: Mapping[str, str]
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None


@dataclass(frozen=True)
class RestoreAllOrder:
    """Bring homes back to where they were, of people who have none there, or one that nobody has used yet.

    One that somebody has used stays as it is. What goes wrong with one home is reported as its person's, and the others
    go on. The work runs in the unit ``gpuadmin-restore-all.service``, which goes on when the controller is interrupted.
    """

    #: Directory of homes.
    root: str
    #: Directory of backups.
    directory: str
    #: Person → the backup that their home comes from.
    homes: Mapping[str, str]
    #: Person → their uid now, where the site knows it.
    uids: Mapping[str, int]
    #: As in RestoreOrder.
    subids: Sequence[int]
    #: What a home began with that nobody has used.
    skeleton: str
    mountpoint: Optional[str] = None
    remote: Optional[BackupHost] = None


@dataclass(frozen=True)
class RestoreOrder:
    """Restore a home, or a part of it, from a backup.

    Restores beside what is there, never over it, and compares the copy with the backup's manifest before it
    gets its name.
    The work runs in the unit ``gpuadmin-restore-USER.service``, which goes on when the controller is
    interrupted.
    """

    #: Directory of homes.
    root: str
    #: Directory of backups.
    directory: str
    #: The person whose home is restored.
    user: str
    #: Name of the backup; without it the newest in which the home was verified. From one that is not here the
    #: home comes from the host of the second copies. So it does from the newest verified one, where none that
    #: is here has the home verified.
    backup: str = ""
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None
    #: The place for the copy. ``in-place`` moves the home of now aside.
    mode: Literal["beside", "in-place", "directory", "attic"] = "beside"
    #: A part of the home; empty for all of it.
    path: str = ""
    #: The directory for ``mode=directory``.
    target: Optional[str] = None
    #: The person's uid now, where it is another than in the backup.
    uid: Optional[int] = None
    #: Base, size and first uid of the site's subordinate ids: a person's begin at base + (uid - first) * size.
    subids: Optional[Sequence[int]] = None
    #: The host of the second copies; None where there is no such host.
    remote: Optional[BackupHost] = None
    #: One word for this run of gpuadmin, the same where Ansible asks once more because ssh broke.
    run_id: str = ""

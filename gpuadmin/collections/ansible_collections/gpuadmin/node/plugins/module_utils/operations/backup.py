"""gpuadmin.node.backup: backups of the homes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ..answer import Answer
from ..backups import actions
from ..budget import ENTRIES, SECONDS
from ..documents import BackupHost

#: A task of this role need not name a field that the role has a variable for.
ROLE = "backups"


@dataclass(frozen=True)
class Document:
    """Make, verify, copy and prune backups of the homes.

    A backup is a read-only snapshot with a manifest of every home, and is one only when it is complete.
    All work runs in units ``gpuadmin-backup-*.service``, which go on when the controller is interrupted and are
    waited for by the next run.
    """

    #: What to do.
    action: Literal["make", "verify", "copy", "prune"]
    #: Directory of backups.
    directory: str
    #: Name of the backup. Without it ``action=verify`` and ``action=copy`` take the newest.
    name: str | None = None
    #: Directory of homes, for ``action=make``.
    root: str | None = None
    #: Mount point that must be mounted.
    mountpoint: str | None = None
    #: Whether this host has the database of Slurm's accounting, for ``action=make``.
    accounting: bool = False
    #: Whose homes are verified; without it everybody's.
    users: Sequence[str] | None = None
    #: How many homes are read at once.
    workers: int = 2
    #: How long one home may take to be read; a home that takes longer is a problem, and the others go on.
    home_seconds: int = int(SECONDS)
    #: How many entries one home may hold; a path counts once more for each KiB of it.
    home_entries: int = ENTRIES
    #: The host for ``action=copy``.
    remote: BackupHost | None = None
    #: How long a backup stays, for ``action=prune``.
    days: int = 183
    #: How many of the timer's backups stay, for ``action=prune``.
    ordinary: int = 14
    #: The backups that were decided to go, for ``action=prune``.
    only: Sequence[str] | None = None
    #: One word for this run of gpuadmin, the same where Ansible asks once more because ssh broke.
    run_id: str = ""


def operate(document: Document, check: bool) -> Answer:
    done = actions.act(
        asdict(document),
        check=check,  # guard: check mode makes no backup -> False
    )
    return Answer(done.operations, done.report)

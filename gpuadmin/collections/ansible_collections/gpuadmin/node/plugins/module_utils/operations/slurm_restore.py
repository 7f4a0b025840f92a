"""gpuadmin.node.slurm_restore: the queue's accounting, from a backup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .. import background
from ..answer import Answer
from ..backups import accounting, accounting_restoring
from ..errors import nothing_begun

ROLE = "slurm_controller"
_JOB = "restore-accounting"


@dataclass(frozen=True)
class Wanted:
    #: Name of the backup; without it the newest in which the accounting was verified.
    backup: Optional[str] = None


@dataclass(frozen=True)
class Document:
    """Restore the database of Slurm's accounting from a backup of this host.

    It is loaded beside the one that is there, compared with the backup, and then takes its place. The old one stays.
    """

    #: Directory of backups.
    backups: str
    restore: Wanted
    #: One word for this run of gpuadmin, the same where Ansible asks once more because ssh broke.
    run_id: str = ""


def operate(document: Document, check: bool) -> Answer:
    # guard: an accounting that this run restored is not restored again -> None
    restored = None if check else background.said(_JOB, document.run_id)
    if restored is not None:
        return Answer([f"restore it from {restored['backup']}"], {"restored": restored, "problems": []})
    with nothing_begun():
        backup = accounting_restoring.chosen(document.backups, document.restore.backup)
        operations = accounting_restoring.plan(backup)
    restored = {"target": accounting.DATABASE, "backup": backup.name}
    if not check:  # guard: check mode restores no accounting -> True
        arguments = {"directory": document.backups, "backup": backup.name}
        restored = background.perform(_JOB, accounting_restoring.restore, arguments, start=document.run_id)
    return Answer(operations, {"restored": restored, "problems": []})

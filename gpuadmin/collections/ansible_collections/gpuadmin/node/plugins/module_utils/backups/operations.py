"""Operations on backups: making and restoring them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

from gpuadmin.common.records.backups import BackupOrder, RestoreOrder

from .. import background, mounts
from ..answer import Answer
from ..errors import nothing_begun
from ..operation import operation
from . import accounting, accounting_restoring, actions, jobs, restore


@operation("backup", BackupOrder, role="backups")
def act_on_backups(document: BackupOrder, check: bool) -> Answer:
    return actions.act(
        document,
        check=check,  # guard: check mode makes no backup -> False
    )


@operation("restore_home", RestoreOrder)
def restore_home(document: RestoreOrder, check: bool) -> Answer:
    job = f"restore-{document.user}"
    # guard: what this run restored is not in its own way -> None
    restored = None if check else background.said(job, document.run_id)
    if restored is not None:
        words = f"restore {document.user} from {restored['backup']} to {restored['target']}"
        return Answer([words], {"restored": restored, "problems": []})
    with nothing_begun():
        plan, backup, away = restore.look(document, mounts.read_mountinfo())
    operations = list(plan.operations)
    if away and document.remote:
        operations.insert(0, f"take it from the second copy {backup.name} on {document.remote.host}")
    restored = {"target": plan.target, "backup": backup.name}
    if not check:  # guard: check mode restores nothing -> True
        order = replace(document, backup=backup.name, run_id="")
        restored = background.perform(job, jobs.restore_home, order, start=document.run_id)
    return Answer(operations, {"restored": restored, "problems": []})


_JOB = "restore-accounting"


@dataclass(frozen=True)
class Wanted:
    #: Name of the backup; without it the newest in which the accounting was verified.
    backup: Optional[str] = None


@dataclass(frozen=True)
class AccountingRestore:
    """Restore the database of Slurm's accounting from a backup of this host.

    It is loaded beside the one that is there, compared with the backup, and then takes its place. The old one stays.
    """

    #: Directory of backups.
    backups: str
    restore: Wanted
    #: One word for this run of gpuadmin, the same where Ansible asks once more because ssh broke.
    run_id: str = ""


@operation("slurm_restore", AccountingRestore, role="slurm_controller")
def restore_accounting(document: AccountingRestore, check: bool) -> Answer:
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

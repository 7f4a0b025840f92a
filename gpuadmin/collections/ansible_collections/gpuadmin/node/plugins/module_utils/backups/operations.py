"""Operations on backups: making and restoring them."""

from __future__ import annotations

from dataclasses import replace

from gpuadmin.common.records.backups import BackupOrder, PromoteOrder, RestoreAllOrder, RestoreOrder

from .. import background, mounts
from ..answer import Answer
from ..errors import nothing_begun
from ..operation import operation
from . import actions, all_homes, jobs, promoting, restore


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


@operation("restore_homes", RestoreAllOrder, role="backups", each="restored_homes")
def restore_homes(document: RestoreAllOrder, check: bool) -> Answer:
    found = all_homes.look(document)
    if not check:  # guard: check mode restores no home -> True
        found = background.perform("restore-all", jobs.restore_homes, document)
    done = [f"restore {name}'s home from {document.homes[name]}" for name, why in found.items() if not why]
    left = [] if check else [f"{name}: {why}" for name, why in found.items() if why]
    return Answer(done, {"restored_homes": found, "problems": []}, left)


@operation("promote_homes", PromoteOrder, role="backups")
def promote_homes(document: PromoteOrder, check: bool) -> Answer:
    with nothing_begun():
        plan = promoting.look(document)
    if not check and plan.operations:  # guard: a check makes no homes -> True
        background.perform("promote", promoting.execute, document)
    return Answer(plan.operations, {"problems": []})

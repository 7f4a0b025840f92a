"""gpuadmin.node.restore_home: restoring from a backup."""

from __future__ import annotations

from dataclasses import replace

from gpuadmin.common.records.backups import RestoreOrder as Document

from .. import background, mounts
from ..answer import Answer
from ..backups import restore
from ..backups.jobs import restore_home
from ..errors import nothing_begun


def operate(document: Document, check: bool) -> Answer:
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
        restored = background.perform(job, restore_home, order, start=document.run_id)
    return Answer(operations, {"restored": restored, "problems": []})

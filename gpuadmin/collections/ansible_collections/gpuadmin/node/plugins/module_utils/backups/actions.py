"""What the backup module does: each action's plan, which is what check mode shows, and its job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuadmin.common.records.backups import BackupOrder
from gpuadmin.common.text import counted

from .. import background
from ..answer import Answer
from ..errors import NodeError, nothing_begun
from . import making, pruning
from .jobs import choose_backup, choose_homes, copy_backup, make_backup, prune_backups, verify_backup


def act(order: BackupOrder, *, check: bool) -> Answer:
    """Given an order, do it (unless ``check``); the operations are the same in both cases.

    What this very run has done is reported, and not done again.
    """
    # guard: what this run did to backups is not asked of it again -> None
    found = None if check else background.said(f"backup-{order.action}", order.run_id)
    if found is not None:
        gone = [f"delete the backup {name}" for name in found] if order.action == "prune" else None
        return Answer([f"{order.action} {found['name']}"] if gone is None else gone, _report(order.action, found))
    return {"make": _make, "verify": _verify, "copy": _copy, "prune": _prune}[order.action](order, check)


def _perform(order: BackupOrder, function: background.JobFunction) -> dict[str, Any]:
    """Have it done, and return the report of it."""
    own, name = replace(order, run_id=""), f"backup-{order.action}"  # another run may wait for the same job
    return _report(order.action, background.perform(name, function, own, start=order.run_id))


def _report(action: str, found: Any) -> dict[str, Any]:
    if action == "prune":
        return {"pruned": found, "problems": []}
    lacks = {"make": making.missing, "copy": making.uncopied}.get(action)
    return {"backup": found, "problems": lacks(found) if lacks else []}


def _make(order: BackupOrder, check: bool) -> Answer:
    if not order.root or not order.name:
        raise NodeError("root and name are needed to make a backup")
    operations, other = making.plan(order)
    report: dict[str, Any] = {"problems": [f"{name} {why}: not backed up" for name, why in sorted(other.items())]}
    if not check:  # guard: check mode begins no backup -> True
        report = _perform(order, make_backup)
    return Answer(operations, report)


def _verify(order: BackupOrder, check: bool) -> Answer:
    with nothing_begun():
        found = choose_backup(order)
        wanted = choose_homes(found, order.users)
    operation = f"read {counted(len(wanted), 'home')} of {found.name}, and compare each file with what was backed up"
    report = {"problems": []} if check else _perform(replace(order, name=found.name), verify_backup)
    return Answer([operation], report)


def _copy(order: BackupOrder, check: bool) -> Answer:
    if order.remote is None:
        raise NodeError("remote is needed to copy a backup")
    operations = [f"backup {order.name or 'newest'}: copy to {order.remote.host} and verify there"]
    if check:
        return Answer(operations, {"problems": []})  # guard: check mode sends no copy
    return Answer(operations, _perform(order, copy_backup))


def _prune(order: BackupOrder, check: bool) -> Answer:
    gone = pruning.expired(order.directory, order.days, order.ordinary, order.only)
    report: dict[str, Any] = {"pruned": gone, "problems": []}
    if (
        not check and gone  # guard: check mode prunes nothing
    ):
        only = gone  # guard: only what was shown is pruned -> order.only
        report = _perform(replace(order, only=only), prune_backups)
    return Answer([f"delete the backup {name}" for name in gone], report)

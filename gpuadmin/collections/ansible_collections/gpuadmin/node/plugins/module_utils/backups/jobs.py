"""The jobs on homes and backups, each done in a unit: functions of an order, as JSON holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.common.records.backups import BackupOrder, RestoreOrder

from ..documents import parse
from ..errors import NodeError
from ..files import flocked
from ..paths import RUN
from . import backup_set, making, pruning, restore, transfer
from .backup_set import Backup

COPY_LOCK = f"{RUN}/backup-copy.lock"


def choose_backup(order: BackupOrder) -> Backup:
    """The complete set that an order names; without a name the newest. Raises NodeError if there is none."""
    directory, name = order.directory, order.name
    named = [backup_set.load(directory, name)] if name else backup_set.complete(directory)[-1:]
    found = next(iter(named), None)
    if found is None:
        raise NodeError(f"there is no complete backup {name} in {directory}")
    return found


def choose_homes(backup: Backup, users: Sequence[str] | None) -> list[str]:
    """The people whose homes in a backup are meant: everybody, if nobody is named. Raises NodeError for one not in
    it."""
    unknown = [name for name in users or () if name not in backup.homes]
    if unknown:
        raise NodeError(f"{', '.join(unknown)}: not in the backup {backup.name}")
    return sorted(backup.homes) if users is None else list(users)


def make_backup(arguments: Mapping[str, Any]) -> object:
    return making.create(parse(BackupOrder, arguments, "order"))


def verify_backup(arguments: Mapping[str, Any]) -> object:
    order = parse(BackupOrder, arguments, "order")
    backup = choose_backup(order)
    wanted = choose_homes(backup, order.users)
    return making.verify(backup, wanted, order.workers, again=True, limits=making.limit_homes(order))


def restore_home(arguments: Mapping[str, Any]) -> object:
    return restore.execute(parse(RestoreOrder, arguments, "order"))


def copy_backup(arguments: Mapping[str, Any]) -> Backup:
    """Send a set, or the newest complete one, to another host. Whose homes did not get there is in its record."""
    order = parse(BackupOrder, arguments, "order")
    remote = transfer.connect(order.remote)
    if remote is None:
        raise NodeError("remote is needed to copy a backup")
    found = choose_backup(order)
    earlier = [one for one in reversed(backup_set.complete(order.directory)) if one.name < found.name]
    # guard: one copy at a time
    with flocked(COPY_LOCK, 3600):  # seconds; the other host takes one set at a time
        limits = making.limit_homes(order)
        when, lacking = transfer.send(found, remote, earlier, limits, order.workers)
    return backup_set.copied(found, remote.name, when, lacking)


def prune_backups(arguments: Mapping[str, Any]) -> object:
    order = parse(BackupOrder, arguments, "order")
    return pruning.prune(order.directory, order.days, order.ordinary, order.only)

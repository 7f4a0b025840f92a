"""The jobs on homes and backups, each done in a unit: functions of an order."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.common.records.backups import BackupOrder, RestoreAllOrder, RestoreOrder

from ..errors import NodeError
from ..files import flocked
from ..paths import RUN
from . import all_homes, backup_set, making, pruning, restore, transfer
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


def make_backup(order: BackupOrder) -> object:
    return making.create(order)


def verify_backup(order: BackupOrder) -> object:
    backup = choose_backup(order)
    wanted = choose_homes(backup, order.users)
    return making.verify(backup, wanted, order.workers, again=True, limits=making.limit_homes(order))


def restore_home(order: RestoreOrder) -> object:
    return restore.execute(order)


def restore_homes(order: RestoreAllOrder) -> object:
    return all_homes.execute(order)


def copy_backup(order: BackupOrder) -> Backup:
    """Send a set, or the newest complete one, to another host. Whose homes did not get there is in its record."""
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


def prune_backups(order: BackupOrder) -> object:
    return pruning.prune(order.directory, order.days, order.ordinary, order.only)

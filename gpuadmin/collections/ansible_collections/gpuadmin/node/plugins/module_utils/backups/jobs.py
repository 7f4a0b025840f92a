"""The jobs on homes and backups, each done in a unit: functions of what JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..budget import ENTRIES, SECONDS
from ..errors import NodeError
from ..files import flocked
from ..paths import RUN
from . import backup_set, making, pruning, restore, restore_plan, transfer
from .verifying import Limits

COPY_LOCK = f"{RUN}/backup-copy.lock"


def make_backup(arguments: Mapping[str, Any]) -> object:
    return making.create(making.Request(**arguments)).as_dict()


def verify_backup(arguments: Mapping[str, Any]) -> object:
    backup = backup_set.load(arguments["directory"], arguments["backup"])
    if backup is None:
        raise NodeError(f"there is no complete backup {arguments['backup']} in {arguments['directory']}")
    wanted = sorted(backup.homes) if arguments["users"] is None else list(arguments["users"])
    unknown = [name for name in wanted if name not in backup.homes]
    if unknown:
        raise NodeError(f"{', '.join(unknown)}: not in the backup {backup.name}")
    limits = Limits(arguments.get("seconds", SECONDS), arguments.get("entries", ENTRIES))
    return making.verify(backup, wanted, arguments.get("workers", 2), again=True, limits=limits).as_dict()


def restore_home(arguments: Mapping[str, Any]) -> object:
    given = dict(arguments)
    if given.get("subids") is not None:
        given["subids"] = tuple(given["subids"])
    if given.get("remote") is not None:
        given["remote"] = remote_of(given["remote"])
    return restore.execute(restore_plan.Request(**given))


def copy_backup(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Send a set, or the newest complete one, to another host. Whose homes did not get there is in its record."""
    sets = backup_set.complete(arguments["directory"])
    found = next((one for one in reversed(sets) if arguments["backup"] in (None, one.name)), None)
    if found is None:
        raise NodeError(f"there is no complete backup {arguments['backup'] or ''} in {arguments['directory']}")
    earlier = [one for one in reversed(sets) if one.name < found.name]
    limits = Limits(arguments.get("seconds", SECONDS), arguments.get("entries", ENTRIES))
    with flocked(COPY_LOCK, 3600):  # seconds; the other host takes one set at a time
        when, lacking = transfer.send(found, remote_of(arguments), earlier, limits, arguments.get("workers", 2))
    return backup_set.copied(found, arguments["host"], when, lacking).as_dict()


def budget_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What one home may take, and how many are read at once, by the names of these jobs."""
    return {
        "seconds": settings.get("home_seconds", SECONDS),
        "entries": settings.get("home_entries", ENTRIES),
        "workers": settings.get("workers", 2),
    }


def remote_of(arguments: Mapping[str, Any]) -> transfer.Remote:
    """The other host, as the role describes it."""
    command = transfer.ssh_command(
        arguments["address"], arguments["key"], arguments["known_hosts"], int(arguments["port"])
    )  # fmt: skip
    return transfer.Remote(arguments["host"], command)


def prune_backups(arguments: Mapping[str, Any]) -> object:
    return pruning.prune(arguments["directory"], arguments["days"], arguments["ordinary"], arguments["only"])

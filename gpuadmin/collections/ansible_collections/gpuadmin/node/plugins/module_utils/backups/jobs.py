"""The jobs on homes and backups, each done in a unit: functions of what JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..budget import ENTRIES, SECONDS
from ..errors import NodeError
from ..files import flocked
from ..paths import RUN
from . import backup_set, making, pruning, restore, restore_plan, transfer
from .backup_set import Backup
from .verifying import Limits

COPY_LOCK = f"{RUN}/backup-copy.lock"


def chosen(directory: str, name: str | None) -> Backup:
    """The complete set of that name; without one the newest. Raises NodeError if there is none."""
    named = backup_set.complete(directory)[-1:] if name is None else [backup_set.load(directory, name)]
    found = next(iter(named), None)
    if found is None:
        raise NodeError(f"there is no complete backup {name or ''} in {directory}")
    return found


def homes_of(backup: Backup, users: Sequence[str] | None) -> list[str]:
    """The people whose homes in a backup are meant: everybody, if nobody is named. Raises NodeError for one not in
    it."""
    unknown = [name for name in users or () if name not in backup.homes]
    if unknown:
        raise NodeError(f"{', '.join(unknown)}: not in the backup {backup.name}")
    return sorted(backup.homes) if users is None else list(users)


def make_backup(arguments: Mapping[str, Any]) -> object:
    return making.create(making.Request(**arguments)).as_dict()


def verify_backup(arguments: Mapping[str, Any]) -> object:
    backup = chosen(arguments["directory"], arguments["backup"])
    wanted = homes_of(backup, arguments["users"])
    return making.verify(backup, wanted, arguments.get("workers", 2), again=True, limits=_limits(arguments)).as_dict()


def restore_home(arguments: Mapping[str, Any]) -> object:
    given = dict(arguments)
    if given.get("subids") is not None:
        given["subids"] = tuple(given["subids"])
    if given.get("remote") is not None:
        given["remote"] = remote_of(given["remote"])
    return restore.execute(restore_plan.Request(**given))


def copy_backup(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Send a set, or the newest complete one, to another host. Whose homes did not get there is in its record."""
    directory = arguments["directory"]
    found = chosen(directory, arguments["backup"])
    earlier = [one for one in reversed(backup_set.complete(directory)) if one.name < found.name]
    # guard: one copy at a time
    with flocked(COPY_LOCK, 3600):  # seconds; the other host takes one set at a time
        when, lacking = transfer.send(
            found, remote_of(arguments), earlier, _limits(arguments), arguments.get("workers", 2)
        )
    return backup_set.copied(found, arguments["host"], when, lacking).as_dict()


def budget_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What one home may take, and how many are read at once, by the names of these jobs."""
    return {
        "seconds": settings.get("home_seconds", SECONDS),
        "entries": settings.get("home_entries", ENTRIES),
        "workers": settings.get("workers", 2),
    }


def _limits(arguments: Mapping[str, Any]) -> Limits:
    return Limits(arguments.get("seconds", SECONDS), arguments.get("entries", ENTRIES))


def remote_of(arguments: Mapping[str, Any]) -> transfer.Remote:
    """The other host, as the role describes it."""
    command = transfer.ssh_command(
        arguments["address"], arguments["key"], arguments["known_hosts"], int(arguments["port"])
    )  # fmt: skip
    return transfer.Remote(arguments["host"], command)


def prune_backups(arguments: Mapping[str, Any]) -> object:
    return pruning.prune(arguments["directory"], arguments["days"], arguments["ordinary"], arguments["only"])

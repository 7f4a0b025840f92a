"""Bringing Slurm's accounting back from a backup. What is there now is kept, in a database beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from gpuadmin.common.text import counted, size_words

from ..errors import NodeError, in_words
from ..files import flocked
from ..run import run
from . import accounting, backup_set
from .accounting import DATABASE, LOCK, NAME, SECONDS, TRIAL
from .backup_set import Backup
from .verifying import Limits, Task, differences


def chosen(directory: str, name: str | None) -> Backup:
    """The named set, or the newest in which the accounting was verified, or else the newest that has it."""
    backup_set.check_directory(directory)
    if name is None:
        found = backup_set.newest(reversed(backup_set.complete(directory)), NAME)
    else:
        found = backup_set.load(directory, name)
        found = found if found is not None and NAME in found.homes else None
    if found is None:
        raise NodeError(f"no backup {name or ''} in {directory} has {accounting.WORDS}")
    return found


def plan(backup: Backup) -> list[str]:
    """What a restore does, in words."""
    home = backup.homes[NAME]
    known = "verified" if home.verified else "not verified; it is compared before it is used"
    there = _there()
    aside = [f"what is there now ({there}) stays, as {DATABASE}_before_<time>"] if there else []
    return [f"restore {accounting.WORDS} of {backup.created} from {backup.name} ({known})", *aside]


def _there() -> str:
    """How much the database has now; nothing where there is none."""
    if DATABASE not in accounting.databases():
        return ""
    tables, size = accounting.ask(
        f"SELECT COUNT(*), COALESCE(SUM(data_length), 0) FROM information_schema.tables WHERE table_schema='{DATABASE}'"
    ).split()
    return "" if tables == "0" else f"{counted(int(tables), 'table')}, {size_words(int(size))}"


def restore(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Restore it. Until the new one is compared nothing changes; then both change places at once."""
    directory = arguments["directory"]
    with flocked(LOCK, SECONDS):
        backup = chosen(directory, arguments["backup"])
        with backup_set.reading(directory, backup.name):
            task = Task(backup, NAME, Limits())
            # guard: a damaged dump is not restored -> []
            wrong = differences(task, task.limits.budget())
            if wrong:
                raise NodeError(f"{backup.name} is damaged: {', '.join(wrong)}; nothing was restored")
            top, _nested = backup_set.source(backup, NAME)
            try:
                accounting.load(os.path.join(top, accounting.FILE))
            except (NodeError, OSError) as error:
                accounting.drop_trial()
                raise NodeError(f"nothing was restored: {in_words(error)}") from error
        aside = _exchange()
    return {"target": DATABASE, "aside": aside, "backup": backup.name}


def _exchange() -> str | None:
    """Put the loaded database in the place of the one that is there. Returns what that one is called now."""
    run(("systemctl", "stop", "slurmdbd.service"))
    try:
        accounting.ask(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        old, new = _tables(DATABASE), _tables(TRIAL)
        aside = f"{DATABASE}_before_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}" if old else None
        # functions name no database, and slurmdbd makes them again
        moves = [f"{DATABASE}.`{one}` TO {aside}.`{one}`" for one in old]  # guard: the old accounting is kept -> []
        moves += [f"{TRIAL}.`{one}` TO {DATABASE}.`{one}`" for one in new]
        if aside is not None:
            accounting.ask(f"CREATE DATABASE {aside}")
        accounting.ask(f"RENAME TABLE {', '.join(moves)}")  # all of them or none
        accounting.drop_trial()
    finally:
        # one that has found an accounting without its cluster has ended; jobs go on meanwhile
        run(("systemctl", "restart", "slurmdbd.service", "slurmctld.service"))
    return aside


def _tables(database: str) -> list[str]:
    found = accounting.ask(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema='{database}' ORDER BY 1"
    ).split("\n")
    names = [one for one in found if one]
    # guard: a name of a table is not a statement
    if not all(one.replace("-", "_").isidentifier() for one in names):
        raise NodeError(f"{database} has a table that Slurm does not make")
    return names

"""What the units start: a backup, which deletes the oldest ordinary ones before and after itself, and a second copy.

They are two units: where the host of the second copies is away or hangs, there is a backup all the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpuadmin.common.text import counted

from ..errors import NodeError, in_words
from ..files import read_bytes
from . import accounting, backup_set, jobs, making, pruning

FILE = "backups.json"


def main(state: str, job: Callable[[Mapping[str, Any]], object]) -> int:
    """Do the ``job`` (make, copy) with the settings in backups.json of the state directory, as the role wrote them."""
    try:
        data = read_bytes(os.path.join(state, FILE))
        if data is None:
            raise NodeError(f"{state}/{FILE} is not there: gpuadmin provision writes it")
        job(json.loads(data))
    except (NodeError, OSError, ValueError, KeyError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0


def make(settings: Mapping[str, Any], name: str | None = None) -> str:
    """Make an ordinary set; nothing is read twice. Returns its name."""
    directory = str(settings["directory"])
    # guard: old sets go before a new one is made
    _prune(settings)  # before the rest: it helps a full disk
    name = name or time.strftime("%Y%m%dT%H%M%SZ-daily", time.gmtime())
    mountpoint = settings["mountpoint"]
    budget = jobs.budget_of(settings)
    request = making.Request(
        str(settings["root"]), directory, name, None if mountpoint is None else str(mountpoint), (),
        accounting=bool(settings.get("accounting")), **budget,
    )  # fmt: skip
    made = making.create(request)
    print(f"{name}: {counted(len(made.homes.keys() - {accounting.NAME}), 'home')}")
    for lack in making.missing(made.as_dict()):
        print(f"Warning: {lack}", file=sys.stderr)
    late = _prune(settings)
    if late is not None:
        raise late
    return name


def _prune(settings: Mapping[str, Any]) -> NodeError | None:
    """Delete old sets. Returns what went wrong instead of raising it: a backup is made all the same."""
    try:
        gone = pruning.prune(str(settings["directory"]), pruning.FOR_EVER, int(str(settings["ordinary"])))
    except backup_set.InUse as error:
        print(error)
        return None
    except NodeError as error:
        return error
    print(f"deleted: {', '.join(gone) or 'none'}")
    return None


def copy(settings: Mapping[str, Any]) -> None:
    """Send the newest set to the host of the second copies, and one that was made meanwhile. Raises NodeError."""
    directory, sent = str(settings["directory"]), None
    if not settings.get("remote"):
        return
    remote = dict(settings["remote"], directory=directory, **jobs.budget_of(settings))
    while (newest := _newest(directory)) not in (None, sent):
        sent = newest
        made = jobs.copy_backup({**remote, "backup": sent})
        print(f"{sent}: copied to {remote['host']}")
        for lack in making.uncopied(made):
            print(f"Warning: {lack}", file=sys.stderr)


def _newest(directory: str) -> str | None:
    return next((one.name for one in reversed(backup_set.complete(directory))), None)

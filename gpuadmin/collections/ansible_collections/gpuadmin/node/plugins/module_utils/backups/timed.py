"""What the units start: a backup, which deletes the oldest ordinary ones before and after itself, and a second copy.

They are two units: where the host of the second copies is away or hangs, there is a backup all the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from gpuadmin.common.records.backups import BackupOrder
from gpuadmin.common.text import counted

from ..documents import parse_settings, to_plain
from ..errors import NodeError, in_words
from ..files import read_bytes
from . import accounting, backup_set, jobs, making, pruning

FILE = "backups.json"


def main(state: str, job: Callable[[BackupOrder], object]) -> int:
    """Do the ``job`` (make, copy) with the settings in backups.json of the state directory, as the role wrote them."""
    try:
        data = read_bytes(os.path.join(state, FILE))
        if data is None:
            raise NodeError(f"{state}/{FILE} is not there: gpuadmin provision writes it")
        job(parse_settings(BackupOrder, json.loads(data), FILE))
    except (NodeError, OSError, ValueError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0


def make(order: BackupOrder, name: str | None = None) -> str:
    """Make an ordinary set; nothing is read twice. Returns its name."""
    # guard: old sets go before a new one is made
    _prune(order)  # before the rest: it helps a full disk
    name = name or time.strftime("%Y%m%dT%H%M%SZ-daily", time.gmtime())
    made = making.create(replace(order, name=name, users=()))
    print(f"{name}: {counted(len(made.homes.keys() - {accounting.NAME}), 'home')}")
    for lack in making.missing(to_plain(made)):
        print(f"Warning: {lack}", file=sys.stderr)
    late = _prune(order)
    if late is not None:
        raise late
    return name


def _prune(order: BackupOrder) -> NodeError | None:
    """Delete old sets. Returns what went wrong instead of raising it: a backup is made all the same."""
    try:
        gone = pruning.prune(order.directory, pruning.FOR_EVER, order.ordinary)
    except backup_set.InUse as error:
        print(error)
        return None
    except NodeError as error:
        return error
    print(f"deleted: {', '.join(gone) or 'none'}")
    return None


def copy(order: BackupOrder) -> None:
    """Send the newest set to the host of the second copies, and one that was made meanwhile. Raises NodeError."""
    sent = None
    if order.remote is None:
        return
    while (newest := _newest(order.directory)) not in (None, sent):
        sent = newest
        made = jobs.copy_backup(replace(order, name=sent))
        print(f"{sent}: copied to {order.remote.host}")
        for lack in making.uncopied(to_plain(made)):
            print(f"Warning: {lack}", file=sys.stderr)


def _newest(directory: str) -> str | None:
    return next((one.name for one in reversed(backup_set.complete(directory))), None)

"""The backup that the timer makes: one more ordinary set, the oldest of them gone, the second copy made."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from ..budget import ENTRIES, SECONDS
from ..errors import NodeError, in_words
from ..files import read_bytes
from ..text import counted
from . import jobs, making, pruning

FILE = "backups.json"


def main(state: str) -> int:
    """Make the backup that is due. The settings are in backups.json of the state directory, as the role wrote them."""
    try:
        data = read_bytes(os.path.join(state, FILE))
        if data is None:
            raise NodeError(f"{state}/{FILE} is not there: gpuadmin provision writes it")
        settings = json.loads(data)
        make(settings)
    except (NodeError, OSError, ValueError, KeyError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0


def make(settings: Mapping[str, Any], name: str | None = None) -> str:
    """Make an ordinary set; nothing is read twice. Returns its name."""
    directory = str(settings["directory"])
    name = name or time.strftime("%Y%m%dT%H%M%SZ-daily", time.gmtime())
    mountpoint = settings["mountpoint"]
    request = making.Request(
        str(settings["root"]), directory, name, None if mountpoint is None else str(mountpoint), (),
        int(str(settings["workers"])), float(str(settings.get("home_seconds", SECONDS))),
        int(str(settings.get("home_entries", ENTRIES))),
    )  # fmt: skip
    made = making.create(request)
    print(f"{name}: {counted(len(made.homes), 'home')}")
    for lack in making.missing(made.as_dict()):
        print(f"Warning: {lack}", file=sys.stderr)
    gone = pruning.prune(directory, pruning.FOR_EVER, int(str(settings["ordinary"])))
    print(f"deleted: {', '.join(gone) or 'none'}")
    if settings.get("remote"):
        remote = dict(settings["remote"], directory=directory, backup=name)
        jobs.copy_backup(remote)
        print(f"copied to {remote['host']}")
    return name

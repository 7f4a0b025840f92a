"""The work that is done in units of its own, by name; and what runs there."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from . import backups, wipe
from .errors import NodeError
from .files import read_bytes, write_atomic
from .jobs import Work


def make_backup(arguments: Mapping[str, Any]) -> object:
    return backups.create(backups.Request(**arguments)).as_dict()


def verify_backup(arguments: Mapping[str, Any]) -> object:
    backup = backups.load(arguments["directory"], arguments["backup"])
    if backup is None:
        raise NodeError(f"there is no complete backup {arguments['backup']} in {arguments['directory']}")
    wanted = sorted(backup.homes) if arguments["users"] is None else list(arguments["users"])
    unknown = [name for name in wanted if name not in backup.homes]
    if unknown:
        raise NodeError(f"{', '.join(unknown)}: not in the backup {backup.name}")
    return backups.verify(backup, wanted, again=True).as_dict()


def empty_trash(arguments: Mapping[str, Any]) -> object:
    return {name: done.as_dict() for name, done in wipe.empty_trash(wipe.Request(**arguments)).items()}


WORK: Mapping[str, Work] = {one.__name__: one for one in (make_backup, verify_backup, empty_trash)}


def main(arguments: list[str] | None = None) -> int:
    """Do the job that lies in a directory, and leave its outcome there."""
    place = (sys.argv[1:] if arguments is None else arguments)[-1]
    job = json.loads(read_bytes(os.path.join(place, "job.json")) or b"{}")
    outcome: dict[str, object]
    try:
        outcome = {"result": WORK[job["work"]](job["arguments"])}
    except NodeError as error:
        outcome = {"problem": str(error)}
    except Exception as error:  # whatever it is, the run that waits must hear of it
        traceback.print_exc()
        outcome = {"problem": f"{type(error).__name__}: {error}"}
    write_atomic(os.path.join(place, "outcome.json"), json.dumps(outcome).encode(), mode=0o600)
    return int("problem" in outcome)

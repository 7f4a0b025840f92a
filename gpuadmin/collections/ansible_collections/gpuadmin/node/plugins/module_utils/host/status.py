"""What an admin wants to know of a host every day: people, GPUs, disks, newest backup, image. It only looks.

Each part is looked at in a process of its own: one that hangs or is not known says so, and the others answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from typing import Any

from gpuadmin.common.records.hosts import Newest

from ..backups import backup_set
from ..each import Failed, each
from ..errors import NodeError, in_words
from ..gpus import gate, pci
from ..images.observe import report_image
from ..images.places import Places
from ..limits.room import disk
from ..logins import occupants
from ..run import run
from ..slurm.queue import closed, without_gpus
from . import upgrades

_TIMER = "gpuadmin-timer-"
SECONDS = 15.0  # for a part: logind, a disk or a directory of people may not answer at all; all are asked at once


def collect(
    *,
    uid_first: int,
    uid_last: int,
    disks: Mapping[str, str],
    backups: str | None = None,
    node: bool = False,
    queue: bool = False,
    places: Places | None = None,
    seconds: float = SECONDS,
) -> dict[str, Any]:
    """All parts that a host has, and ``unknown``: part → why it could not be looked at.

    ``disks``: name → path that is on it. ``backups``: the directory of backups. ``node``: people and GPUs are here.
    ``queue``: Slurm's controller is; it says which nodes take no jobs, and which have no GPUs.
    ``seconds``: how long a part may take.
    """
    parts: dict[str, Callable[[], object]] = {name: partial(disk, path) for name, path in disks.items()}
    parts["timers"] = timers
    if backups is not None:
        parts["backup"] = partial(newest_backup, backups)
    parts["updates"] = upgrades.waiting
    if queue:
        parts["queue"] = closed
        parts["queue_without_gpus"] = without_gpus
    if node:
        parts["people"] = partial(occupants.people, uid_first, uid_last)
        parts["gpu_people"] = partial(occupants.gpu_users, uid_first)
        parts["gpus"] = gpus
        parts["gpu_gate"] = gate.problems
        parts["image"] = partial(report_image, places)

    def look(name: str) -> object:
        try:
            return parts[name]()
        except (OSError, ValueError) as error:  # not even a full disk ends the whole
            raise NodeError(in_words(error)) from None

    unknown: dict[str, str] = {}
    found: dict[str, Any] = {"disks": {}}
    for name, answer in each(look, list(parts), len(parts), seconds, grace=0):
        if isinstance(answer, Failed):  # guard: a part that is not known keeps no other
            unknown[name] = answer.why
        else:
            (found["disks"] if name in disks else found)[name] = answer
    return {**found, "unknown": dict(sorted(unknown.items()))}


def newest_backup(directory: str) -> Newest | None:
    """The newest complete backup in a directory."""
    backup_set.check_directory(directory)
    for name in reversed(backup_set.names(directory)):
        found = backup_set.load(directory, name)
        if found is not None:
            verified = sum(1 for home in found.homes.values() if home.verified)
            uncopied = {host: sorted(homes) for host, homes in found.uncopied.items()}
            counts = len(found.homes), verified, len(found.problems)
            return Newest(found.name, found.created, *counts, dict(found.copies), uncopied)
    return None


def timers() -> dict[str, str]:
    """The verbs that this host runs by itself: when the last run ended, and whether it failed."""
    asked = "--property=Id,Result,ExecMainExitTimestampMonotonic"
    shown = run(["systemctl", "show", "--all", asked, f"{_TIMER}*.service"])
    found, booted = {}, time.time() - time.monotonic()
    for block in filter(None, shown.strip().split("\n\n")):
        unit = dict(line.split("=", 1) for line in block.splitlines())
        ended = int(unit["ExecMainExitTimestampMonotonic"]) / 1e6  # its other form has no one way to be read
        moment = datetime.fromtimestamp(int(booted + ended), timezone.utc).isoformat() if ended else ""
        failed = moment and unit["Result"] != "success"
        found[unit["Id"][len(_TIMER) : -len(".service")]] = moment + (" failed" if failed else "")
    return found


def gpus(directory: str = pci.BUS) -> list[str]:
    """The GPUs on the PCI bus with their drivers; the drivers are not asked. Raises NodeError if nothing shows."""
    if not os.path.isdir(directory):
        raise NodeError("this host shows no PCI bus")
    return pci.summary(directory)

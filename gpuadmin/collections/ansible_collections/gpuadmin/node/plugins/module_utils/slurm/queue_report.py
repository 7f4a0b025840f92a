"""Who has GPUs of Slurm's, who waits for some, and which nodes take no job."""

from __future__ import annotations

import json
import os
from typing import Any

from gpuadmin.common.waiting import why

from ..errors import NodeError
from . import booking, exceptions, queue
from .accounts import EXCEPTION

#: Variables by which a login has Slurm's programs ask elsewhere, or show a part (squeue(1): SQUEUE_USERS).
_OWN = ("SLURM_", "SQUEUE_", "SINFO_", "SCONTROL_")


def report(*, version: bool = True) -> dict[str, Any]:
    """Jobs, each with why it waits in words, and of an admin's exception who made it and why; nodes; and
    reservations. ``version``: also slurmctld's, which takes one more program. Raises NodeError."""
    jobs, counts = queue.ask_jobs(), queue.counts(queue.ask(queue.TYPES))
    nodes = [{**one, "gpus": counts.get(one["name"])} for one in queue.nodes(queue.ask(queue.NODES))]
    noted = exceptions.read_comments([one["id"] for one in jobs if one["qos"] == EXCEPTION])
    for one in jobs:
        one["exception"] = noted.get(one["id"])
        one["why"] = why(queue.code(one["reason"], one["gpus"]), one["reason"], "en") if one["waits"] else ""
    release = queue.version("slurmctld") if version else None
    return {"queue": {"jobs": jobs, "nodes": nodes, "reservations": booking.reservations(), "version": release}}


def main() -> int:
    """Print the same for `gpuadmin queue`, which starts no playbook for it. Anybody may ask: root is not needed."""
    # guard: what a login has set for its own squeue leaves nothing out -> ()
    for name in [one for one in os.environ if one.startswith(_OWN)]:
        del os.environ[name]
    try:
        queue.alive()
        said = report(version=False)  # nothing that people see
    except NodeError as error:
        said = {"problem": str(error)}
    print(json.dumps(said, default=vars))
    return 0

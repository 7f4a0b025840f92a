"""What Slurm's controller says of its queue, each minute, for Prometheus: jobs, waiting people, and closed nodes."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import NodeError
from ..run import run_command
from ..slurm import exceptions, notebook, notices, queue
from ..slurm.accounts import EXCEPTION
from .exposition import Samples
from .running import write

DIRECTORY = "/run/gpuadmin-metrics/queue"
TEXT = "queue.prom"
MOST_JOBS = 2000  # that are shown one by one: those that come first
ACCOUNTING = 5.0  # seconds for slurmdbd
_ACCOUNTS = ("sacctmgr", "-nP", "show", "cluster", "format=cluster")


def samples(jobs: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, str]]) -> Samples:
    """What the queue is like."""
    found = Samples()
    gpus: dict[tuple[str, str, str], int] = defaultdict(int)
    for one in jobs:
        if one["gpus"] and not one["waits"]:
            gpus[one["user"], one["group"], one["project"]] += one["gpus"]
    for (user, group, project), number in gpus.items():
        found.put("gpuadmin_queue_allocated_gpus", number, user=user, account=group, project=project)
    for one in [one for one in jobs if one["gpus"]][:MOST_JOBS]:
        labels = {"id": one["id"], "user": one["user"], "account": one["group"], "gpus": one["gpus"]}
        if one["waits"]:
            found.put("gpuadmin_queue_place", one["place"], **labels, why=queue.code(one["reason"]))
            found.put("gpuadmin_queue_waiting_since_timestamp_seconds", one["asked"], id=one["id"], user=one["user"])
            expected = one["expected"]
            found.put("gpuadmin_queue_expected_start_timestamp_seconds", expected, id=one["id"], user=one["user"])
        else:
            labels["notebook"] = "yes" if one["name"] == notebook.NAME else ""
            found.put("gpuadmin_queue_until_timestamp_seconds", one["end"], **labels, nodes=one["nodes"])
    made = exceptions.read_comments([one["id"] for one in jobs if one["qos"] == EXCEPTION and one["gpus"]][:MOST_JOBS])
    for id, one in made.items():
        found.put("gpuadmin_queue_exception", 1, id=id, who=one["who"], reason=one["reason"])
    for node in nodes:
        if node["reason"]:
            found.put("gpuadmin_queue_node_closed", 1, node=node["name"], state=node["state"], reason=node["reason"])
    return found


def main(directory: str = DIRECTORY) -> int:
    """Ask once, and write it. Exit 0, also where Slurm does not answer: that is a metric."""
    began, found, up = time.time(), Samples(), 1
    try:
        queue.alive()
        found = samples(queue.ask_jobs(), queue.nodes(queue.ask(queue.NODES)))
    except NodeError:
        up = 0  # guard: a queue that nobody knows is not an empty one -> 1
    for user, id, why, at in notices.read_recent():
        found.put("gpuadmin_queue_ended_timestamp_seconds", at, id=id, user=user, why=why)
    found.put("gpuadmin_queue_up", up)
    found.put("gpuadmin_queue_accounting_up", 1 if _accounting() else 0)
    found.put("gpuadmin_collector_sample_timestamp_seconds", round(began, 3), source="queue")
    found.put("gpuadmin_collector_duration_seconds", round(time.time() - began, 3), source="queue")
    os.makedirs(directory, mode=0o755, exist_ok=True)
    write(directory, TEXT, found.render())
    return 0


def _accounting() -> bool:
    """Whether slurmdbd answers, with its database."""
    try:
        done = run_command(_ACCOUNTS, seconds=ACCOUNTING)
    except (NodeError, OSError):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())

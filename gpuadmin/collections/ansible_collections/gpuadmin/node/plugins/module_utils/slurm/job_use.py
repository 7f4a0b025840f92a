"""How well a job uses its GPUs: its node looks each minute, where it is measured, and tells Slurm's accounting when the
job has ended. People read it there (gpu_jobs.py). Of a job over several nodes the last one's word stays.
"""

from __future__ import annotations

import glob
import json
import os
import time
from contextlib import suppress
from typing import Any

from gpuadmin.common.samples import Sample, of_text

from ..errors import NodeError
from ..files import flocked, read_bytes, write_atomic
from ..gpus import grants
from ..gpus.gate import Places
from ..gpus.grants import Grant
from ..paths import RUN
from .gpu_jobs import build_use_command

FILE = "job-use.json"
#: What the node has measured (metrics/running.py).
MEASURED = f"{RUN}-metrics/*/*.prom"


def look(places: Places, ended: str = "", text: str | None = None) -> None:
    """Look once at all jobs' GPUs here. ``ended``: a job that has ended, of which the accounting is told. ``text``:
    what is measured. Where that is not known nothing is said; it keeps no job waiting for long."""
    with suppress(NodeError, OSError, ValueError, LookupError, TypeError):
        path, now = os.path.join(places.run, FILE), time.time()
        with flocked(os.path.join(places.run, "locks", FILE), 5.0):
            before = json.loads(read_bytes(path) or b"{}")
            samples = list(of_text(_measured() if text is None else text, {}))
            found = [one for one in grants.read(places.state, places.run)[0] if one.source == grants.SOURCE]
            seen = {one.id: use for one in found if (use := _look(one, samples, before.get(one.id), now))}
            write_atomic(path, json.dumps(seen).encode(), mode=0o600, sync=False)
        use = seen.get(f"{grants.SOURCE}-{ended}")
        if use and use["seconds"]:
            ratio = min(1.0, max(0.0, use["active"] - use["before"]) / use["seconds"])
            places.command(("timeout", "5", *build_use_command(ended, ratio, use["memory"], use["size"])))


def _measured() -> str:
    return "".join((read_bytes(path) or b"").decode("utf-8", "replace") for path in glob.glob(MEASURED))


def _look(grant: Grant, samples: list[Sample], before: dict[str, Any] | None, now: float) -> dict[str, Any] | None:
    """What is known of a job by now; ``before``: at the last look. Seconds are those of all its GPUs together."""

    def total(name: str) -> float:
        mine = (one for one in samples if one.name == name and one.labels.get("uuid") in grant.gpus)
        return sum(one.value for one in mine if one.labels.get("user", grant.user) == grant.user)

    active, size = total("gpuadmin_gpu_active_seconds_total"), total("gpuadmin_gpu_memory_size_bytes")
    if not size:
        return None
    first = before or {"since": now, "before": active, "memory": 0}
    memory, seconds = total("gpuadmin_gpu_memory_used_bytes"), (now - first["since"]) * len(grant.gpus)
    return {**first, "active": active, "memory": max(memory, first["memory"]), "size": size, "seconds": seconds}

"""Exceptions of admins': jobs that root submits in somebody's name, without limits and before all others.

Slurm alone decides about GPUs, so that none is given twice. Such a job does nothing; the grant that comes with each job
opens its GPUs. Who made it and why is its AdminComment, which people cannot change.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import NodeError, NothingBegun
from . import queue
from .accounts import EXCEPTION

#: Seconds in which it starts, or is called off. Slurm looks for GPUs at once; a prolog takes some of them.
STARTS = 20.0
#: Fields of squeue's: a job, and what its maker has said (``changes``).
_NOTED = {"JobArrayID": 32, "admin_comment": 4096}


def read_comments(jobs: Sequence[str]) -> dict[str, dict[str, str]]:
    """What the makers of exceptions have said, by job: ``id``, ``who``, ``reason``. Each is empty where it cannot be
    read."""
    try:
        rows = queue.table(_NOTED, f"--jobs={','.join(jobs)}") if jobs else []
    except NodeError:  # guard: an exception that cannot be read hides no queue
        rows = []
    noted = {one[0].strip(): one[1] for one in (row.split(queue.BETWEEN) for row in rows) if len(one) > 1}
    return {job: parse_comment(noted.get(job, "")) for job in jobs}


def parse_comment(text: str) -> dict[str, str]:
    """What the maker of an exception has said, from its AdminComment, as ``read_comments`` has it."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = {}
    found = {name: read.get(name) for name in ("id", "who", "reason")} if isinstance(read, dict) else {}
    fits = {name: text for name, text in found.items() if isinstance(text, str) and text.isprintable()}
    return {name: fits.get(name, "")[: queue.LONGEST] for name in ("id", "who", "reason")}


def command(uid: int, node: str) -> tuple[str, ...]:
    """The job as it is submitted: held, and so small that no limit of the person's keeps it out. A gid is the uid."""
    return (
        "sbatch", "--parsable", "--hold", f"--uid={uid}", f"--gid={uid}", f"--job-name={EXCEPTION}", "--nodes=1",
        f"--nodelist={node}", "--time=1", "--chdir=/", "--output=/dev/null", "--export=NIL",
        # started again by its person, or after its node failed, it would have its whole time once more
        "--no-requeue",  # guard: an exception starts once
        f"--wrap={queue.JOB_DOES}",
    )  # fmt: skip


def changes(job: str, said: Mapping[str, str], gpus: int, seconds: float) -> list[tuple[str, ...]]:
    """What makes an exception of it, in this order: with the QOS it may have the rest. Root alone changes it, from the
    beginning (job_submit.lua)."""
    update = ("scontrol", "update", f"JobId={job}")
    minutes = max(1, math.ceil(seconds / 60))
    return [
        (*update, f"QOS={EXCEPTION}", f"AdminComment={json.dumps(dict(said), ensure_ascii=True)}"),
        # where an older job_submit.lua is in force its person could change it until it had the QOS
        # 21.08 knows "gres:" alone, and newer ones read it as "gres/" (seen: 22.05, 23.11)
        (*update, f"TimeLimit={minutes}", f"TresPerNode=gres:gpu:{gpus}", "Requeue=0"),
        ("scontrol", "release", job),
    ]


def make(
    uid: int, node: str, gpus: int, until: int, said: Mapping[str, str], *, sleep: Callable[[float], None] = time.sleep,
) -> str:  # fmt: skip
    """Submit it, and return its job once its GPUs are open. Raises NodeError where it does not start."""
    try:
        job = queue.ask(command(uid, node)).strip().partition(";")[0]
    except NodeError as error:
        if "submit limit" in str(error):
            raise NodeError(
                "that person has as many jobs in the queue as one may have (slurm.queued): one of them has to end first"
            ) from None
        raise
    if not re.fullmatch(r"[1-9][0-9]{0,9}", job):  # guard: Slurm's programs get nothing but a job's number
        raise NodeError("sbatch does not say which job it has made: gpuadmin queue")
    try:
        for one in changes(job, said, gpus, until - time.time()):
            queue.ask(one)
        end = time.monotonic() + STARTS
        while time.monotonic() < end:
            sleep(0.3)
            there = queue.ask_jobs()
            mine = next((one for one in there if one["id"] == job), None)
            if mine is None:
                raise NodeError(f"job {job} has ended at once: journalctl -u slurmd on {node}")
            # it waits for a moment as theirs, without limits, and could ask for more without job_submit.lua
            # guard: nobody makes more of an exception than an admin has given
            if not mine["waits"] and (mine["gpus"] > gpus or mine["nodes"] != node):
                raise NodeError(f"job {job} was changed meanwhile: it has {mine['gpus']} GPUs of {mine['nodes']}")
            if not mine["waits"] and mine["comment"] == queue.OPEN:
                return job
            # "None" and a hold are of the moment before Slurm has looked
            if mine["waits"] and queue.code(mine["reason"]) not in ("unread", "held", "priority"):
                break
        now = queue.ask_jobs()
        words = why_not(node, gpus, job, now, queue.closed())
        # called off below before anything was opened: nothing of it is left to be done
        raise NothingBegun(words) if any(one["id"] == job and one["waits"] for one in now) else NodeError(words)
    except BaseException:
        # guard: an exception that does not start does not wait unseen
        queue.ask(("scancel", job))
        raise


def why_not(
    node: str, gpus: int, job: str, there: Sequence[Mapping[str, Any]], closed: Mapping[str, str]
) -> str:  # fmt: skip
    """Who is in the way of an exception, in words."""
    if node in closed:
        return f"{node} takes no jobs: {closed[node]}"
    mine = next((one for one in there if one["id"] == job), None)
    others = [one for one in there if node in one["nodes"].split(",") and one["id"] != job]
    having = [f"{one['user']} (job {one['id']}, {one['gpus']} GPU{'' if one['gpus'] == 1 else 's'})" for one in others]
    reason = mine["reason"] if mine and mine["waits"] else "it was not opened in time"
    return (
        f"too few GPUs of {node} are free now for {gpus} more ({reason}); there: {', '.join(having) or 'nobody'}."
        " Nothing waits: try again later, or end a job (gpuadmin revoke slurm-NUMBER)"
    )

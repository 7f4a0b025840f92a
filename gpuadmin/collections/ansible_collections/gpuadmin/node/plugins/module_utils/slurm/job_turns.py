"""What has become of jobs with GPUs, as squeue and sacct say."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuadmin.common.turns import Turn
from gpuadmin.common.waiting import lost_gpus

from ..errors import NodeError
from . import owned, queue
from .gpu_jobs import parse_use
from .slice_limits import parse_node_share

HOUR, DAY = 3600, 86400
WAITED = 60  # seconds: who waited no longer reads it where they typed `gpu get`
OLDEST = 30 * DAY  # beginnings, of what still runs; the ledger remembers longer
_FIELDS = ("JobID", "User", "UID", "State", "Submit", "Start", "End", "ReqTRES", "NodeList", "AdminComment",
           "SystemComment",
           "JobName")  # fmt: skip
_LATELY = {"JobArrayID": 32, "UserName": 64, "State": 24, "EndTime": 24, "tres-alloc": 256, "admin_comment": 4096}
_ENDED = "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,REQUEUED,TIMEOUT"
_WHY = {"COMPLETED": "done", "TIMEOUT": "time", "DEADLINE": "time", "OUT_OF_MEMORY": "memory", "NODE_FAIL": "node",
        "BOOT_FAIL": "node", "REQUEUED": "node", "CANCELLED": "cancelled", "PREEMPTED": "preempted"}  # fmt: skip


def running(jobs: Iterable[Mapping[str, Any]], now: float) -> list[Turn]:
    """Who has got GPUs, and whose time is over within the hour."""
    found = []
    for one in jobs:
        if one["waits"] or not one["gpus"] or one["start"] is None or one["end"] is None:
            continue
        base, _, task = one["id"].partition("_")
        # guard: an array is told once -> f"{one['id']} {one['start']}"
        key = f"{base} {one['asked']}" if task else f"{one['id']} {one['start']}"
        turn = Turn("", key, one["user"], base, one["start"], one["gpus"], one["nodes"], one["end"], _name(one["name"]))
        if one["start"] - (one["asked"] or 0) >= WAITED and one["start"] > now - OLDEST:
            found.append(replace(turn, kind="begun", key=f"begun {key}"))
        last = one["end"] - HOUR
        if not task and last <= now < one["end"] and one["end"] - one["start"] >= 2 * HOUR:
            found.append(replace(turn, kind="ends", key=f"ends {one['id']} {one['end']}", at=last))
    return found


def leaving(jobs: Iterable[Mapping[str, Any]], now: float) -> list[Turn]:
    """Whose job has to leave a node that a group comes first on. Raises NodeError."""
    return [
        Turn("ends", f"preempted {one['id']} {one['start']}", one["user"], one["id"].partition("_")[0], now,
             one["gpus"], one["nodes"], until, _name(one["name"]), owner=owned.find_owner(found, one["nodes"]))
        for one, until, found in owned.look_guests(jobs) if until
    ]  # fmt: skip


def lost(
    jobs: Iterable[Mapping[str, Any]], closed: Mapping[str, str], seen: dict[str, float], now: float
) -> list[Turn]:
    """Whose GPU does not answer. ``closed``: node → why it takes no jobs. ``seen``: key → since when, kept."""
    silent = {node: numbers.split(", ") for node, reason in closed.items() if (numbers := lost_gpus(reason))}
    found = []
    for one in jobs:
        for node in () if one["waits"] or not one["gpus"] else silent.keys() & set(one["nodes"].split(",")):
            try:
                mine = [str(number) for number in parse_node_share(queue.ask(queue.details(one["id"])), node).gpus]
            except NodeError:
                mine = []
            # guard: who has other GPUs of the node is not told that theirs is lost -> silent[node]
            names = [number for number in silent[node] if not mine or number in mine]
            key = f"lost {one['id']} {one['start']} {node} {' '.join(names)}"
            turn = Turn("lost", key, one["user"], one["id"].partition("_")[0], seen.get(key, now), one["gpus"], node,
                        one["end"], _name(one["name"]), lost=", ".join(names))  # fmt: skip
            found += [turn] if names else []
    seen.clear()
    seen.update({one.key: one.at for one in found})
    return found


def ask_ended(*which: str) -> list[dict[str, str]]:
    """The jobs that have ended, of those that ``which`` says, as sacct prints them. Raises NodeError."""
    options = ("--allusers", "--allocations", "--duplicates", f"--state={_ENDED}", "--endtime=now")
    return queue.accounting(_FIELDS, *options, *which)


def ended(rows: Iterable[Mapping[str, str]]) -> list[Turn]:
    """One turn for each job, or each array, of these."""
    of: dict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        if queue.gpus_in(row["ReqTRES"]) and queue.number(row["End"]):
            base, array, _ = row["JobID"].partition("_")
            of[base, row["Submit"] if array else row["Start"]].append(row)
    found = []
    for (base, key), tasks in of.items():
        last = max(tasks, key=lambda row: int(row["End"]))
        nodes = sorted({node for row in tasks for node in queue.names(row["NodeList"]).split(",") if " " not in node})
        gpus, whys = queue.gpus_in(last["ReqTRES"]), tuple(Counter(map(_why, tasks)).most_common())
        found.append(Turn(
            "ended", f"ended {base} {key}", last["User"], base, int(last["End"]), gpus, ",".join(nodes[:8]),
            name=_name(last["JobName"]), whys=whys, used=_used(tasks),
        ))  # fmt: skip
    return found


def look_ended(since: float, jobs: Iterable[Mapping[str, Any]]) -> list[Turn]:
    """What has ended since then. An array has when the last of its tasks has. Raises NodeError."""
    rows = ask_ended(f"--starttime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(since))}")
    there = {str(queue.first_number(one["id"])) for one in jobs}
    arrays = {row["JobID"].partition("_")[0] for row in rows if "_" in row["JobID"]} - there
    # guard: an array is told of when all of it has ended -> rows
    single = [row for row in rows if "_" not in row["JobID"]]
    whole = ask_ended(f"--jobs={','.join(sorted(arrays))}", "--starttime=2000-01-01") if arrays else []
    return [turn for turn in ended([*single, *whole]) if turn.at >= since]


def look_lately() -> dict[str, tuple[str, str, int]]:
    """Job → whose it was, why and when it ended, of those that slurmctld still has: five minutes. An array is one; what
    somebody has ended themselves, or nobody knows why, is left out. Raises NodeError."""
    found = {}
    for line in queue.table(_LATELY, states=f"--states={_ENDED}"):
        cells = [cell.strip() for cell in line.split(queue.BETWEEN)]
        if len(cells) != len(_LATELY) + 1 or not queue.gpus_in(cells[4]) or not cells[3].isdecimal():
            continue
        id, user, state, end, _, comment, _ = cells
        why = _why({"State": state, "AdminComment": comment, "UID": ""})
        if why not in ("own", "cancelled"):
            found[id.partition("_")[0]] = user, why, int(end)
    return found


def _why(row: Mapping[str, str]) -> str:
    state, _, by = row["State"].partition(" by ")
    if state == "CANCELLED" and '"ended": "idle"' in row["AdminComment"]:
        return "idle"
    # after a restart of slurmctld the accounting no longer says by whom
    return "own" if state == "CANCELLED" and by in (row["UID"], "") else _WHY.get(state, "failed")


def _name(name: str) -> str:
    return "" if name in ("gpu-get", "exception", "wrap", "interactive") else name


def _used(rows: Iterable[Mapping[str, str]]) -> tuple[float, float, float] | None:
    """How well its GPUs were used, as their node has told the accounting (job_use.py): the mean over its tasks."""
    found = [one for row in rows if (one := parse_use(row["SystemComment"]))]
    use, memory, size = zip(*found) if found else ((), (), ())
    return (sum(use) / len(use), max(memory), max(size)) if found else None

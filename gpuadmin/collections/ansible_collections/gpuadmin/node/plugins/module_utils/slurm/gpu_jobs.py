"""What `gpu jobs` does: a person's jobs of 30 days, as Slurm's accounting has them. It runs as whoever calls it; the
accounting shows people their own jobs alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..lookup import find_name
from . import queue
from .gpu_words import Asked, clock, print_table
from .texts import JOBS

DAYS = 30
GIB = 1 << 30
_FIELDS = (
    "JobID", "JobIDRaw", "Submit", "Start", "End", "TimelimitRaw", "State", "ExitCode", "NodeList", "AllocTRES",
    "ReqTRES", "MaxRSS", "TotalCPU", "ElapsedRaw", "SystemComment", "JobName",
)  # fmt: skip
#: How well a job used its GPUs, in its SystemComment, which root alone writes.
_USE = "gpu={:.3f} memory={:.0f} size={:.0f}"
_USED = re.compile(r"gpu=([01]\.\d{3}) memory=(\d{1,15}) size=(\d{1,15})\Z")
#: Jobs that do nothing themselves: what their person runs beside them Slurm does not measure.
BESIDE = ("gpu-get", "gpu-run", "exception")


def build_use_command(job: str, use: float, memory: float, size: float) -> list[str]:
    """What root tells the accounting of a job that has ended: its GPUs' use on average (0 to 1), and bytes at most of
    how many."""
    comment = f"SystemComment={_USE.format(use, memory, size)}"
    return ["sacctmgr", "--immediate", "modify", "job", "where", f"jobid={job}", "set", comment]


def parse_use(comment: str) -> tuple[float, float, float] | None:
    """What build_use_command has said, from a SystemComment: None where nobody has measured it."""
    found = _USED.match(comment)
    return None if found is None else (float(found[1]), float(found[2]), float(found[3]))


def show(asked: Asked) -> int:
    words, options = JOBS[asked.language], ("--noconvert", f"--user={os.getuid()}", f"--starttime=now-{DAYS}days")
    found = parse_jobs(queue.accounting(_FIELDS, *options))
    if asked.json:
        print(json.dumps(found, indent=1))
        return 0
    if not found:
        print(words["none"].format(DAYS))
        return 0
    print_table([words["columns"].split("|"), *(_row(one, asked.language) for one in found)])
    return 0


def parse_jobs(rows: Iterable[Mapping[str, str]]) -> list[dict[str, Any]]:
    """A job each, the last first; times in seconds since 1970, memory in bytes; None: unknown."""
    found: dict[str, dict[str, Any]] = {}
    for one in rows:
        job, _, step = one["JobIDRaw"].partition(".")
        if not step:
            has = queue.amounts(one["AllocTRES"] or one["ReqTRES"])
            limit, nodes = queue.number(one["TimelimitRaw"]), one["NodeList"].replace("None assigned", "")
            state, _, by = one["State"].partition(" by ")
            gpu_use, gpu_memory_used, gpu_memory = parse_use(one["SystemComment"]) or (None, None, None)
            found[job] = {
                "id": one["JobID"], "name": queue.plain(one["JobName"])[:64], "nodes": queue.names(nodes),
                "asked": queue.number(one["Submit"]), "start": queue.number(one["Start"]),
                "end": queue.number(one["End"]), "seconds": queue.number(one["ElapsedRaw"]) or 0,
                "limit": None if limit is None else limit * 60, "state": state, "exit": one["ExitCode"],
                "by": (by.isdecimal() and find_name(int(by))) or by, "gpus": int(has.get("gres/gpu", 0)),
                "gpu_use": gpu_use, "gpu_memory_used": gpu_memory_used, "gpu_memory": gpu_memory,
                "cpus": has.get("cpu", 0), "cpu_seconds": None, "memory": has.get("mem", 0), "memory_used": None,
            }  # fmt: skip
        elif job in found and step != "extern" and not (step == "batch" and found[job]["name"] in BESIDE):
            memory = queue.amounts(f"mem={one['MaxRSS']}").get("mem")
            used = {"cpu_seconds": _seconds(one["TotalCPU"]), "memory_used": memory}
            for name, most in used.items():
                found[job][name] = max((x for x in (most, found[job][name]) if x is not None), default=None)
    return sorted(found.values(), key=lambda one: -(one["asked"] or 0))


def _seconds(text: str) -> float | None:
    """`1-02:03:04`, `02:03:04`, `03:04.567`: seconds."""
    days, _, rest = text.rpartition("-")
    try:
        return sum((float(one) * 60.0**at for at, one in enumerate(rest.split(":")[::-1])), 86400.0 * int(days or 0))
    except ValueError:
        return None


def _row(one: dict[str, Any], language: str) -> list[str]:
    words, asked, start, seconds = JOBS[language], one["asked"], one["start"], one["seconds"]
    waited = "–" if asked is None or start is None else _length(start - asked)
    ran = "–" if start is None else words["of"].format(_length(seconds), _length(one["limit"] or 0))
    return [one["id"], one["name"], clock(start or asked), waited, ran, one["nodes"] or "–", str(one["gpus"]),
            describe_end(one, language), ", ".join(_used(one, words)) or "–"]  # fmt: skip


def _used(one: dict[str, Any], words: dict[str, str]) -> list[str]:
    """What it used, of what it had asked for; what nobody measured is left out."""
    found = []
    if one["gpu_use"] is not None:
        found.append(words["gpu-use"].format(one["gpu_use"], one["gpu_memory_used"] / GIB, one["gpu_memory"] / GIB))
    if one["cpu_seconds"] is not None and one["seconds"]:
        found.append(words["cpu-use"].format(one["cpu_seconds"] / one["seconds"], int(one["cpus"])))
    if one["memory_used"] is not None:
        found.append(words["memory-use"].format(one["memory_used"] / GIB, one["memory"] / GIB))
    return found


def describe_end(one: dict[str, Any], language: str) -> str:
    """How a job has ended, in words."""
    words, state = JOBS[language], one["state"]
    code, _, signal = one["exit"].partition(":")
    if state == "CANCELLED":
        if one["by"] not in ("", find_name(os.getuid())):
            return words["cancelled"].format(one["by"])
        began = "given-back" if one["name"] in BESIDE else "cancelled-own"
        return words["never-began" if one["start"] is None else began]
    if state == "FAILED" and signal not in ("", "0"):
        return words["signal"].format(signal)
    return words[state].format(code) if state in words else words["other"].format(queue.plain(state)[:40])


def _length(seconds: int) -> str:
    minutes, left = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"

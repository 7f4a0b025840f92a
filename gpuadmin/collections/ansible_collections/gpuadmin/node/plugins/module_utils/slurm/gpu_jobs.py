"""What `gpu jobs` does: a person's jobs of 30 days, as Slurm's accounting has them. It runs as whoever calls it; the
accounting shows people their own jobs alone.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Sequence
from typing import Any

from ..lookup import name_of
from . import queue
from .gpu_words import Asked, clock
from .texts import JOBS

DAYS = 30
GIB = 1 << 30
_FIELDS = (
    "JobID", "JobIDRaw", "Submit", "Start", "End", "TimelimitRaw", "State", "ExitCode", "NodeList", "AllocTRES",
    "ReqTRES", "MaxRSS", "TotalCPU", "ElapsedRaw", "JobName",
)  # fmt: skip
_AMOUNT = re.compile(r"(?:^|,)(cpu|mem|gres/gpu)=(\d+(?:\.\d+)?)([KMGT]?)(?:,|$)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_ENDS = ("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "CANCELLED", "RUNNING", "PENDING")
#: Jobs that do nothing themselves: what their person runs beside them Slurm does not measure.
BESIDE = ("gpu-get", "gpu-run", "exception")


def show(asked: Asked) -> int:
    found = parse_jobs(ask_sacct())
    words = JOBS[asked.language]
    if asked.json:
        print(json.dumps(found, indent=1))
        return 0
    rows = [words["columns"].split("|"), *(_row(one, asked.language) for one in found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows if found else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if not found:
        print(words["none"].format(DAYS))
    return 0


def ask_sacct() -> list[list[str]]:
    """The fields of each job and of each of its steps. What a job is called is its person's word: between two fields is
    another one each time. Raises NodeError."""
    token = secrets.token_hex(8)
    said = queue.ask(
        ("sacct", "--noheader", "--parsable2", "--noconvert", f"--delimiter=\x1f{token}", f"--user={os.getuid()}",
         f"--starttime=now-{DAYS}days", f"--format={','.join(_FIELDS)},Reason")
    )  # fmt: skip
    rows = [line.split(f"\x1f{token}") for line in said.splitlines()]
    return [row[: len(_FIELDS)] for row in rows if len(row) == len(_FIELDS) + 1]


def parse_jobs(rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """A job each, the last first; times in seconds since 1970 or None, memory in bytes."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        one = dict(zip(_FIELDS, row))
        job, _, step = one["JobIDRaw"].partition(".")
        if not step:
            has = _amounts(one["AllocTRES"] or one["ReqTRES"])
            limit = queue.number(one["TimelimitRaw"])
            state, _, by = one["State"].partition(" by ")
            found[job] = {
                "id": one["JobID"], "name": queue.plain(one["JobName"])[:64], "nodes": queue.names(one["NodeList"]),
                "asked": queue.number(one["Submit"]), "start": queue.number(one["Start"]),
                "end": queue.number(one["End"]), "limit": None if limit is None else limit * 60,
                "elapsed": queue.number(one["ElapsedRaw"]) or 0, "state": state, "by": (by and name_of(int(by))) or by,
                "exit": one["ExitCode"], "gpus": int(has.get("gres/gpu", 0)), "cpus": int(has.get("cpu", 0)),
                "memory": int(has.get("mem", 0)), "memory_used": None, "cpu_seconds": None,
            }  # fmt: skip
        elif job in found and step != "extern" and not (step == "batch" and found[job]["name"] in BESIDE):
            used = {
                "memory_used": _amounts(f"mem={one['MaxRSS']}").get("mem"),
                "cpu_seconds": _seconds(one["TotalCPU"]),
            }
            for key, number in used.items():
                found[job][key] = max((each for each in (number, found[job][key]) if each is not None), default=None)
    return sorted(found.values(), key=lambda one: -(one["asked"] or 0))


def _amounts(text: str) -> dict[str, float]:
    found = _AMOUNT.findall(text)
    return {name: float(number) * 1024 ** _POWERS[unit] for name, number, unit in found}


def _seconds(text: str) -> float | None:
    """`1-02:03:04`, `02:03:04`, `03:04.567`: seconds."""
    days, _, rest = text.rpartition("-")
    try:
        return int(days or 0) * 86400 + sum(float(one) * 60**at for at, one in enumerate(rest.split(":")[::-1]))
    except ValueError:
        return None


def _row(one: dict[str, Any], language: str) -> list[str]:
    words, asked, start = JOBS[language], one["asked"], one["start"]

    def of(used: str | None, had: object) -> str:
        return "–" if used is None else words["of"].format(used, had)

    memory, seconds = one["memory_used"], one["cpu_seconds"]
    busy = None if seconds is None or not one["elapsed"] else f"{seconds / one['elapsed']:.1f}"
    return [
        one["id"], one["name"], clock(start or asked), "–" if None in (asked, start) else _length(start - asked),
        of(None if start is None else _length(one["elapsed"]), _length(one["limit"] or 0)), one["nodes"] or "–",
        str(one["gpus"]), of(busy, one["cpus"]),
        of(None if memory is None else f"{memory / GIB:.1f}", f"{one['memory'] / GIB:.0f} GiB"),
        describe_end(one, language),
    ]  # fmt: skip


def describe_end(one: dict[str, Any], language: str) -> str:
    """How a job has ended, in words."""
    words, state = JOBS[language], one["state"]
    code, _, signal = one["exit"].partition(":")
    if state == "CANCELLED":
        own = one["by"] in ("", name_of(os.getuid()))
        kind = "given-back" if own and one["name"] in BESIDE else "cancelled-own" if own else "cancelled"
        return words[kind].format(one["by"])
    if state == "FAILED" and signal not in ("", "0"):
        return words["signal"].format(signal)
    return words.get(state, words["other"]).format(code if state in _ENDS else state)


def _length(seconds: int) -> str:
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}"

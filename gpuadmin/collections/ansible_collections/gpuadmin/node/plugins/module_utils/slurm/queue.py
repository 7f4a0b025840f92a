"""The queue, as slurmctld says: jobs with their places, and nodes that take no job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import NodeError
from ..run import run_command

SECONDS = {"SLURM_TIME_FORMAT": "%s"}
JOBS = ("squeue", "--noheader", "--format=%i|%u|%a|%T|%Q|%V|%S|%e|%N|%b|%r")
NODES = ("sinfo", "--noheader", "--Node", "--format=%N|%T|%E")
_GPUS = re.compile(r"gpu(?::[^:,=]+)?[:=](\d+)")


def jobs(text: str) -> list[dict[str, object]]:
    """A row for each job: running ones first, then those that wait, in the order in which they come."""
    found = []
    for line in text.splitlines():
        parts = line.split("|", 10)
        if len(parts) < 11:
            continue
        id, user, group, state, priority, asked, start, end, nodes, gres, reason = parts
        match = _GPUS.search(gres)
        found.append(
            {
                "id": id, "user": user, "group": group, "state": state.lower(), "priority": number(priority) or 0,
                "asked": number(asked), "start": number(start), "end": number(end), "nodes": nodes,
                "gpus": int(match.group(1)) if match else 0, "reason": reason[:200],
            }
        )  # fmt: skip
    return sorted(found, key=lambda one: (one["state"] == "pending", -int(str(one["priority"])), str(one["asked"])))


def nodes(text: str) -> list[dict[str, str]]:
    """Each node with its state, and why it takes no job."""
    rows = [line.split("|", 2) for line in text.splitlines()]
    return [
        {"name": row[0], "state": row[1].rstrip("*~#!%$@+^-"), "reason": "" if row[2] == "none" else row[2][:200]}
        for row in rows
        if len(row) == 3
    ]


def number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def ask(command: Sequence[str], seconds: float = 10.0) -> str:
    """What one of Slurm's programs prints. Raises NodeError where its controller does not answer."""
    try:
        done = run_command(command, seconds=seconds, environment=SECONDS)
    except OSError as error:
        raise NodeError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise NodeError((done.stderr.strip() or f"{command[0]} failed").splitlines()[-1][:200])
    return done.stdout

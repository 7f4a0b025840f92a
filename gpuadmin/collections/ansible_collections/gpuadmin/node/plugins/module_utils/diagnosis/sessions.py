"""The manager, sessions, limits and kills of a person on a node, as systemd and the kernel have them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..bounded import numbers, read_small, short
from ..lookup import system_lookup
from ..run import run
from ..unit import logged, state
from .subject import Subject

CGROUP = "sys/fs/cgroup"
SINCE = "-1day"


def find_uid(subject: Subject) -> int | None:
    """The uid that the person really has here, which need not be the site's."""
    found = system_lookup(subject.name or "")
    return subject.uid if found is None else found[0]


def sessions(subject: Subject) -> dict[str, Any]:
    """``manager``: the state of user@UID.service, which starts with a login. ``slice``: what the kernel counts."""
    uid = find_uid(subject)
    if uid is None:
        return {"manager": "inactive", "sessions": 0, "linger": False, "runtime": False, "slice": {}, "words": []}
    unit = f"user@{uid}.service"
    manager = state(unit)
    listed = run(("loginctl", "list-sessions", "--no-legend"), what="it is not known who is logged in")
    runtime = f"/run/user/{uid}"
    return {
        "manager": manager,
        "sessions": sum(1 for line in listed.splitlines() if line.split()[1:2] == [str(uid)]),
        "linger": os.path.exists(f"/var/lib/systemd/linger/{subject.name}"),
        "runtime": os.path.isdir(runtime),
        "slice": count_slice(uid, subject.path(CGROUP)),
        "words": _words(unit) if manager == "failed" and not subject.own else [],
    }


def _words(unit: str) -> list[str]:
    lines = logged(("_PID=1", f"UNIT={unit}"), 10, since=SINCE).splitlines()
    return [short(line) for line in lines[-5:]]


def count_slice(uid: int, cgroups: str) -> dict[str, int]:
    """The kernel's counts of all that a person runs, containers included: tasks and their limit, memory, kills.

    What this kernel does not count is left out.
    """
    directory = f"{cgroups}/user.slice/user-{uid}.slice"
    found: dict[str, int] = {}
    for name, key in (("pids.current", "tasks"), ("pids.max", "tasks_max"), ("memory.current", "memory"),
                      ("memory.max", "memory_max")):  # fmt: skip
        text = _small(f"{directory}/{name}").strip()
        if text.isdecimal():
            found[key] = int(text)
    for name, event, key in (("memory.events", "oom_kill", "memory_oom_kill"), ("pids.events", "max", "tasks_refused")):
        count = _events(f"{directory}/{name}").get(event)
        if count is not None:
            found[key] = count
    return found


def _events(path: str) -> Mapping[str, int]:
    return dict(numbers(_small(path)))


def _small(path: str) -> str:
    try:
        return read_small(path, most=65536).decode("ascii", "replace")
    except OSError:
        return ""  # this kernel, or this controller, does not have it


def cgroup_alive(uid: int, unit: str, cgroups: str) -> bool:
    """Whether anything runs in a unit of a person's manager. Asking the manager would need the person's bus."""
    path = f"{cgroups}/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/{unit}/cgroup.events"
    return _events(path).get("populated") == 1

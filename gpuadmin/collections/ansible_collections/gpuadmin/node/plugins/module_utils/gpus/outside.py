"""Where people run outside of every unit that has a gate: whatever else starts programs for them on this host."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from ..cgroups import cgroup_path, slice_owner
from ..fields import FIRST_HUMAN_UID
from ..lookup import name_of

#: Uids that systemd gives to services for as long as they run (DynamicUser=), and nobody's.
OF_SERVICES = range(61184, 65536)
LARGEST = 1 << 16  # bytes of a process's file


def of_people(closed: Iterable[str], exempt: Collection[int], proc: str = "/proc") -> dict[str, int]:
    """Cgroups with a process of somebody's that is in no person's slice and in no unit of ``closed``; one uid of each.

    ``exempt``: uids that are not kept out. In a person's slice everybody is kept out whom that person's list keeps out.
    """
    units = set(closed)
    people: dict[int, bool] = {}
    found: dict[str, int] = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            uid = _uid(f"{proc}/{name}/status")
            if uid is None or uid < FIRST_HUMAN_UID or uid in exempt or uid in OF_SERVICES:
                continue
            if uid not in people:
                people[uid] = name_of(uid) is not None
            with open(
                f"{proc}/{name}/cgroup",
                encoding="ascii",
                errors="replace",  # guard: what somebody calls a cgroup of theirs stops nothing
            ) as stream:
                path = cgroup_path(stream.read(LARGEST)) or "/"
        except OSError:
            continue  # it has ended
        if people[uid] and slice_owner(path) is None and not units & set(path.split("/")):
            found.setdefault(path, uid)
    return found


def _uid(path: str) -> int | None:
    """The real uid of a process (proc_pid_status(5))."""
    with open(
        path,
        encoding="utf-8",
        errors="replace",  # guard: a process's name that is not a text stops nothing
        newline="\n",  # guard: nobody is taken for root by what they call their process
    ) as stream:
        for line in stream:
            if line.startswith("Uid:\t"):
                return int(line.split()[1])
    return None

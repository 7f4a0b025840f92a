"""Whose slice of cgroups a process is in: systemd puts it there, and nobody can move it into somebody else's."""

from __future__ import annotations

import os
import re

#: cgroup v2's line, and the one that systemd has where it uses v1.
_LINES = (re.compile(r"0::(/.+)"), re.compile(r"[0-9]+:name=systemd:(/.*)"))
_SLICE = re.compile(r"/user\.slice/user-(0|[1-9][0-9]{0,9})\.slice(?:/|\Z)")
#: What runs in these services was given to them by people, and is in no slice of theirs.
JOB_SERVICES = ("cron.service", "crond.service", "cronie.service", "atd.service", "anacron.service")
#: systemd-cron: a unit for each job, whose name begins so.
JOB_UNITS = "cron-.service"
_MOST = 65536  # bytes of a process's file
MOUNT = "/sys/fs/cgroup"


def slice_owner(path: str) -> int | None:
    """Whose slice a cgroup is in; None for one outside of all."""
    # guard: a name within somebody's slice is not a slice -> _SLICE.search(path)
    found = _SLICE.match(path)
    return int(found.group(1)) if found else None


def cgroup_path(text: str) -> str | None:
    """The path in /proc/PID/cgroup. The kernel lets nobody have a line feed in the name of a cgroup."""
    for pattern in _LINES:
        for line in text.split("\n"):
            found = pattern.fullmatch(line)
            if found:
                return found.group(1)
    return None


def owner_of(pid: int, proc: str = "/proc") -> int | None:
    """Whose a process is; None: it has ended. In a rootless container it has a subordinate uid: its cgroup tells."""
    try:
        with open(f"{proc}/{pid}/cgroup", encoding="ascii", errors="replace") as stream:
            owner = slice_owner(cgroup_path(stream.read(_MOST)) or "/")
        return os.stat(f"{proc}/{pid}").st_uid if owner is None else owner
    except OSError:
        return None


def slice_file(uid: int, name: str, cgroups: str = MOUNT) -> str | None:
    """A file of cgroup v2 in a person's slice; None where nothing of theirs runs, or the kernel has no such file."""
    paths = [f"{base}/user.slice/user-{uid}.slice/{name}" for base in (f"{cgroups}/unified", cgroups)]
    return next((one for one in paths if os.path.exists(one)), None)


def kill(uid: int, cgroups: str = MOUNT) -> bool:
    """Have the kernel end all that runs in a person's slice, in one go: nobody forks faster, and no service is asked.

    False where that cannot be done: no slice, a kernel before 5.14.
    """
    path = slice_file(uid, "cgroup.kill", cgroups)
    if path is None:
        return False
    if owner_of(os.getpid()) == uid:  # guard: whoever runs this does not kill themselves
        return False
    try:
        with open(path, "w", encoding="ascii") as stream:
            stream.write("1")
    except OSError:
        return False  # it has just ended
    return True

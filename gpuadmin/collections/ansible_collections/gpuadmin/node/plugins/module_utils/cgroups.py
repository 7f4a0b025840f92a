"""Whose slice of cgroups a process is in: systemd puts it there, and nobody can move it into somebody else's."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence

#: cgroup v2's line, and the one that systemd has where it uses v1.
_LINES = (re.compile(r"0::(/.+)"), re.compile(r"[0-9]+:name=systemd:(/.*)"))
_SLICE = re.compile(r"/user\.slice/user-(0|[1-9][0-9]{0,9})\.slice(?:/|\Z)")
#: Docker and podman with systemd's cgroup driver, and directories of their own without.
CONTAINER = re.compile(r"/(?:docker-|libpod-)?([0-9a-f]{64})(?:\.scope)?(?=/|\Z)")
#: What runs in these services was given to them by people, and is in no slice of theirs.
JOB_SERVICES = ("cron.service", "crond.service", "cronie.service", "atd.service", "anacron.service")
#: systemd-cron: a unit for each job, whose name begins so.
JOB_UNITS = "cron-.service"
#: sshd, as distributions and systemd 256 and newer call it. Without logind a session stays in it.
SSH_SERVICES = (
    "ssh.service", "ssh@.service", "sshd.service", "sshd@.service",
    "sshd-generated@.service", "sshd-unix-local@.service", "sshd-vsock@.service",
)  # fmt: skip
_MOST = 65536  # bytes of a process's file
MOUNT = "/sys/fs/cgroup"
#: Where cgroup v2 is: beside v1, or alone.
BASES = (f"{MOUNT}/unified", MOUNT)


def controllers(bases: Sequence[str] = BASES) -> set[str]:
    """What cgroup v2 can limit here: a controller that the kernel lacks, or has given to v1, is not in it."""
    for base in bases:
        try:
            with open(f"{base}/cgroup.controllers", encoding="ascii", errors="replace") as stream:
                return set(stream.read(_MOST).split())
        except OSError:
            continue
    return set()


def slice_owner(path: str) -> int | None:
    """Whose slice a cgroup is in; None for one outside of all."""
    # guard: a name within somebody's slice is not a slice -> _SLICE.search(path)
    found = _SLICE.match(path)
    return int(found.group(1)) if found else None


def cgroup_path(text: str) -> str | None:
    """The path in /proc/PID/cgroup. The kernel lets nobody have a line feed in the name of a cgroup."""
    for pattern in _LINES:
        # guard: nobody is somebody else by what they call their cgroup -> text.splitlines()
        for line in text.split("\n"):
            found = pattern.fullmatch(line)
            if found:
                return found.group(1)
    return None


def find_owner(pid: int, proc: str = "/proc") -> int | None:
    """Whose a process is; None: it has ended. In a rootless container it has a subordinate uid: its cgroup tells."""
    try:
        with open(f"{proc}/{pid}/cgroup", encoding="ascii", errors="replace") as stream:
            owner = slice_owner(cgroup_path(stream.read(_MOST)) or "/")
        return os.stat(f"{proc}/{pid}").st_uid if owner is None else owner
    except OSError:
        return None


def find_cgroup(unit: str, cgroups: Sequence[str] = BASES) -> str | None:
    """The directory of a person's slice, or of a service; None where it does not run."""
    parent = ("user.slice" if unit.startswith("user-") else "") if unit.endswith(".slice") else "system.slice"
    for base in cgroups:
        path = os.path.join(base, parent, unit)
        if os.path.isdir(path):
            return path
        if "@" in unit:  # instances are in a slice of their template's
            for found in glob.glob(os.path.join(glob.escape(base), parent, "system-*.slice", glob.escape(unit))):
                return found
    return None


def slices(cgroups: Sequence[str] = BASES) -> list[str]:
    """The cgroups of people's slices that there are, whatever systemd knows of them."""
    return [path for base in cgroups for path in glob.glob(os.path.join(glob.escape(base), "user.slice/user-*.slice"))]


def populated(cgroup: str) -> bool:
    """Whether a process is in this cgroup, or below it. One that a slice has left behind may deny nothing."""
    try:
        with open(os.path.join(cgroup, "cgroup.events"), encoding="ascii") as stream:
            return "populated 0\n" not in stream.read()
    except OSError:
        return True  # guard: where it is not known whether somebody is in a cgroup, it is tried -> False


def slice_file(uid: int, name: str, cgroups: str = MOUNT) -> str | None:
    """A file of cgroup v2 in a person's slice; None where nothing of theirs runs, or the kernel has no such file."""
    base = find_cgroup(f"user-{uid}.slice", (f"{cgroups}/unified", cgroups))
    path = None if base is None else os.path.join(base, name)
    return path if path and os.path.exists(path) else None


def kill(uid: int, cgroups: str = MOUNT) -> bool:
    """Have the kernel end all that runs in a person's slice, in one go: nobody forks faster, and no service is asked.

    False where that cannot be done: no slice, a kernel before 5.14.
    """
    path = slice_file(uid, "cgroup.kill", cgroups)
    if path is None:
        return False
    if find_owner(os.getpid()) == uid:  # guard: whoever runs this does not kill themselves
        return False
    try:
        with open(path, "w", encoding="ascii") as stream:
            stream.write("1")
    except OSError:
        return False  # it has just ended
    return True

"""Who is on a node: people who are logged in, and people's processes that have a GPU open."""

from __future__ import annotations

import glob
import os
import re

from ..cgroups import CONTAINER, cgroup_path, find_owner, slice_owner
from ..lookup import find_name
from ..open_files import read_targets
from ..run import LOOKING, run

#: Device nodes that a process opens to compute on a GPU, or to watch it (NVIDIA; AMD's compute and render nodes).
GPU_DEVICE = re.compile(r"/dev/(nvidia\d+|kfd|dri/render\w\d+)")
#: Since systemd 256 a user's own manager, which lingers without anybody there, is listed as a session.
NO_SESSIONS = {"manager", "manager-early", "background", "background-light"}


def people(uid_first: int, uid_last: int, text: str | None = None) -> list[str]:
    """Names of people with a session (loginctl), without system accounts. NodeError if that cannot be asked."""
    if text is None:
        command = ("loginctl", "list-sessions", "--no-legend")
        text = run(command, what="it is not known who is logged in", seconds=LOOKING)
    names = set()
    for line in text.splitlines():
        columns = line.split()
        if len(columns) < 3 or not columns[1].isdigit() or NO_SESSIONS & set(columns[3:]):
            continue
        if uid_first <= int(columns[1]) <= uid_last:
            names.add(columns[2])
    return sorted(names)


def gpu_users(uid_first: int, proc: str = "/proc") -> list[str]:
    """Names of people whose processes have a GPU open; those of system accounts do not count."""
    return sorted(holders(GPU_DEVICE, uid_first, proc))


def container_users(uid_first: int, uid_last: int, proc: str = "/proc") -> list[str]:
    """Names of people who have a container running, whether they are logged in or not. Without a cgroup of its own it
    has a namespace of pids. Raises OSError where nobody can know."""
    host, found = os.readlink(f"{proc}/1/ns/pid"), set()
    for path in glob.glob(f"{proc}/[0-9]*"):
        try:
            with open(f"{path}/cgroup", encoding="ascii", errors="replace") as stream:
                cgroup = cgroup_path(stream.read(65536)) or "/"
            owner = slice_owner(cgroup)
            if owner is None or not uid_first <= owner <= uid_last:
                continue
            if CONTAINER.search(cgroup) or os.readlink(f"{path}/ns/pid") != host:
                found.add(find_name(owner) or f"uid {owner}")
        except OSError:
            continue  # it has ended meanwhile
    return sorted(found)


def holders(devices: re.Pattern[str], uid_first: int, proc: str = "/proc") -> dict[str, set[str]]:
    """Names of people whose processes have one of these device files open, and which.

    In a rootless container a process has a subuid: its owner is then in the path of its cgroup.
    """
    found: dict[str, set[str]] = {}
    for path in glob.glob(f"{proc}/[0-9]*"):
        try:
            if os.stat(path).st_uid < uid_first:
                continue
            files = read_targets(path)
        except OSError:
            continue  # it has ended meanwhile
        files = {one for one in files if devices.fullmatch(one)}
        owner = find_owner(int(os.path.basename(path)), proc) if files else None
        if owner is not None:
            found.setdefault(find_name(owner) or f"uid {owner}", set()).update(files)
    return found

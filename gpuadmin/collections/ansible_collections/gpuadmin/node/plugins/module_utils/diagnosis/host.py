"""The host itself: memory, disks, clock, names, units, and a reboot that is due."""

from __future__ import annotations

import glob
import os
import re
import socket
import stat
import time
from typing import Any

from ..bounded import numbers, read_small, short
from ..images import root_facts
from ..images.observe import report_image
from ..limits import room
from ..mounts import NETWORK, parse_mountinfo, read_mountinfo
from ..run import run_command
from ..unit import logged
from .subject import Subject

MEMINFO = "proc/meminfo"
#: File systems that hold nobody's files, or are in memory; and FUSE, where a person says what is free.
NO_DISK = re.compile(
    r"(proc|sysfs|devtmpfs|devpts|cgroup2?|bpf|tracefs|debugfs|securityfs|pstore|mqueue|hugetlbfs|configfs|fusectl|"
    r"autofs|fuse|binfmt_misc|rpc_pipefs|nsfs|efivarfs|squashfs|ramfs|iso9660)\Z"
)
MOST_DISKS = 20
TEMPORARY = ("tmp", "var/tmp")
#: Services that keep clocks right, under the names that distributions give them.
TIME_SERVICES = ("chrony", "chronyd", "ntpsec", "ntp", "ntpd", "openntpd", "systemd-timesyncd")
REBOOT = ("run/reboot-required", "var/run/reboot-required")


def memory(subject: Subject) -> dict[str, Any]:
    """Bytes of memory and swap, and the kernel's last kills because it ran out."""
    known = dict(numbers(read_small(subject.path(MEMINFO)).decode("ascii", "replace")))
    keys = {"total": "MemTotal", "available": "MemAvailable", "swap": "SwapTotal", "swap_free": "SwapFree"}
    found: dict[str, Any] = {key: known.get(name, 0) * 1024 for key, name in keys.items()}
    found["kills"] = []
    if subject.root == "/" and not subject.own:
        lines = logged(("_TRANSPORT=kernel", "PRIORITY=3"), 200, since="-1day").splitlines()
        found["kills"] = [short(line) for line in lines if "Killed process" in line][-3:]
    return found


def disks(subject: Subject, mountinfo: str | None = None) -> list[dict[str, Any]]:
    """Local file systems: bytes and inodes, all and free. Another part covers what is on a server."""
    found: dict[str, dict[str, Any]] = {}
    for mount in parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo):
        mine = mount.point in ("/", "/run", "/tmp") or not mount.point.startswith(("/run/", "/proc/", "/sys/", "/dev"))
        if NO_DISK.match(mount.fstype) or NETWORK.match(mount.fstype) or not mine or mount.source in found:
            continue
        try:
            space = os.statvfs(mount.point)
        except OSError:
            continue  # hidden below another mount
        if not space.f_blocks:
            continue
        key = mount.source if mount.source.startswith("/") else mount.point
        found.setdefault(key, {
            "mount": mount.point, "type": mount.fstype, "read_only": bool(space.f_flag & os.ST_RDONLY),
            "bytes": space.f_blocks * space.f_frsize, "free": space.f_bavail * space.f_frsize,
            "inodes": space.f_files, "inodes_free": space.f_favail,
        })  # fmt: skip
        if len(found) == MOST_DISKS:
            break
    return [*found.values(), *_filled(subject)]


def _filled(subject: Subject) -> list[dict[str, Any]]:
    """The room that people can fill, where the rest is kept for root: as if it were a disk of its own."""
    if subject.root != "/":
        return []
    return [
        {
            "mount": top, "type": "quota", "read_only": False, "bytes": most, "free": max(most - used, 0),
            "inodes": 0, "inodes_free": 0,
        }
        for top, used, most in room.bounded()
    ]  # fmt: skip


def temporary(subject: Subject) -> dict[str, int | None]:
    """The modes of the directories that everybody writes to; None: it is not a directory."""
    found: dict[str, int | None] = {}
    for name in TEMPORARY:
        try:
            facts = os.stat(subject.path(name))
            found[f"/{name}"] = stat.S_IMODE(facts.st_mode) if stat.S_ISDIR(facts.st_mode) else None
        except FileNotFoundError:
            found[f"/{name}"] = None
    return found


def clock(subject: Subject) -> dict[str, Any]:
    """Seconds since 1970 here, whether something keeps them right (timedatectl(1); None: not known), and which unit."""
    now = time.time()
    try:
        done = run_command(("timedatectl", "show", "--property=NTPSynchronized", "--value"), seconds=2)
        text = done.stdout.strip()
    except OSError:
        text = ""
    synchronized = {"yes": True, "no": False}.get(text)
    return {"seconds": now, "synchronized": synchronized, "service": time_service(subject.root)}


def time_service(root: str = "/") -> str | None:
    """The service that keeps this host's clock: the one that runs, else one that starts at boot, else one that is here.

    Only names of files are looked at; a service has its cgroup while it runs.
    """
    for pattern in (
        "sys/fs/cgroup/system.slice/{}.service",
        "sys/fs/cgroup/systemd/system.slice/{}.service",
        "etc/systemd/system/*.wants/{}.service",
        "usr/lib/systemd/system/{}.service",
        "lib/systemd/system/{}.service",
    ):
        for name in TIME_SERVICES:
            if glob.glob(os.path.join(root, pattern.format(name))):
                return name
    return None


def names(subject: Subject) -> dict[str, Any]:
    """The names of servers that this host must find: how long its name took, or why it has no address."""
    found: dict[str, Any] = {}
    for name in subject.servers[:10]:
        begun = time.monotonic()
        try:
            socket.getaddrinfo(name, None)
            problem = None
        except (OSError, UnicodeError) as error:
            problem = short(getattr(error, "strerror", None) or error)
        found[name] = {"milliseconds": round((time.monotonic() - begun) * 1000, 1), "problem": problem}
    return found


def units(_subject: Subject) -> list[str]:
    """Units of the system that failed."""
    return [short(one, 80) for one in root_facts.failed_units()[:20]]


def reboot(subject: Subject) -> dict[str, Any]:
    """The reboot that packages ask for, and since when this host runs."""
    asked = any(os.path.exists(subject.path(name)) for name in REBOOT)
    up = float(read_small(subject.path("proc/uptime")).split()[0])
    return {"asked": asked, "uptime": round(up), "kernel": os.uname().release}


def image(subject: Subject) -> dict[str, Any] | None:
    """The images that this node runs and boots next; None if it has none."""
    return report_image() if subject.node else None

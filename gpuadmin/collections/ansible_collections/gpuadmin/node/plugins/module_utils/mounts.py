"""What is mounted where, from mountinfo (proc_pid_mountinfo(5))."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass

from .errors import NodeError

NETWORK = re.compile(r"(nfs4?|cifs|smb3|9p|ceph|lustre|beegfs(_nodev)?|glusterfs|afs|fuse\..*)\Z")

_NEW_NAMESPACE, _RECURSIVE, _SLAVE = 0x20000, 0x4000, 0x80000  # sched.h: CLONE_NEWNS; sys/mount.h: MS_REC, MS_SLAVE


@dataclass(frozen=True)
class Mount:
    root: str  # path inside the file system: for btrfs the subvolume
    point: str
    fstype: str
    source: str
    options: str = ""  # of the file system itself: for btrfs with subvolid and subvol
    flags: str = ""  # of this mount: ro, nosuid

    @property
    def subvolume_id(self) -> int | None:
        """The id of the subvolume that is mounted; None off btrfs."""
        found = re.search(r"(?:^|,)subvolid=(\d+)", self.options) if self.fstype == "btrfs" else None
        return int(found.group(1)) if found else None


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def parse_mountinfo(text: str) -> list[Mount]:
    mounts = []
    for line in text.split("\n"):
        left, separator, right = line.partition(" - ")
        parts, rest = left.split(" "), right.split(" ")
        if separator and len(parts) >= 6 and len(rest) >= 2:
            mounts.append(Mount(_plain(parts[3]), _plain(parts[4]), rest[0], _plain(rest[1]), rest[-1], parts[5]))
    return mounts


def find_late(fstab: str) -> set[str]:
    """Given the text of fstab, return the mount points that are not there before the network is (systemd.mount(5))."""
    late = set()
    for fields in (line.split() for line in fstab.split("\n")):
        options = fields[3].split(",") if len(fields) > 3 and not fields[0].startswith("#") else []
        if "_netdev" in options or ("noauto" in options and "x-systemd.automount" not in options):
            late.add(_plain(fields[1]).rstrip("/") or "/")
    return late


def read_mountinfo(process: str = "self") -> str:
    with open(f"/proc/{process}/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def mounted_on(point: str, mounts: list[Mount]) -> Mount | None:
    """What is mounted on exactly that point; the last one mounted there wins."""
    return next((mount for mount in reversed(mounts) if mount.point == point), None)


def nearest(path: str, mounts: list[Mount]) -> Mount | None:
    """The mount that ``path`` (absolute, without symlinks) is on; the last one mounted there wins."""
    best: Mount | None = None
    for mount in mounts:
        prefix = mount.point.rstrip("/") + "/"
        if (path.rstrip("/") + "/").startswith(prefix) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def below(path: str, mounts: list[Mount]) -> list[Mount]:
    """Mounts at or below ``path``."""
    return [mount for mount in mounts if (mount.point + "/").startswith(path.rstrip("/") + "/")]


def network_filesystem(path: str, text: str | None = None) -> str | None:
    """The type of the network file system that ``path`` is on, or None. Looking inside triggers an automount."""
    real = os.path.realpath(path)
    try:
        os.stat(os.path.join(real, "."))
    except OSError:
        pass
    mount = nearest(real, parse_mountinfo(read_mountinfo() if text is None else text))
    return mount.fstype if mount is not None and NETWORK.match(mount.fstype) else None


def keep_own() -> None:
    """From here on what this process mounts is seen by it and its children alone, and ends with them, even killed.

    What others mount and unmount it still sees (unshare(2), mount_namespaces(7)). Raises NodeError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACE) or libc.mount(None, b"/", None, ctypes.c_ulong(_RECURSIVE | _SLAVE), None):
        raise NodeError(f"cannot make a private mount to look at: {os.strerror(ctypes.get_errno())}")

"""What is mounted where, with its options; and what fstab(5) says."""

from __future__ import annotations

import re

from ..mounts import NETWORK, Mount, parse_mountinfo, read_mountinfo
from .place import Place, Settings, files

#: The kernel's own, and what comes and goes with people and containers.
_PASSING = frozenset(
    ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "debugfs", "tracefs", "securityfs", "pstore", "bpf",
     "configfs", "fusectl", "hugetlbfs", "autofs", "binfmt_misc", "rpc_pipefs", "nsfs", "overlay", "efivarfs",
     "selinuxfs", "squashfs", "nfsd", "ramfs")
)  # fmt: skip
_OF_PEOPLE = re.compile(r"/(run/(user|docker|containerd|credentials|netns)|var/lib/docker|tmp/|proc/|sys/|media/)")
#: What NFS negotiated or computed for one connection.
_CONNECTION = re.compile(r"(clientaddr|addr|mountaddr|mountport|port|subvolid|size|nr_inodes)=")


def mounts(place: Place, text: str | None = None) -> Settings:
    """Mount point → file system and options, one a line; for network file systems with what is mounted."""
    found: Settings = {}
    for mount in parse_mountinfo(read_mountinfo() if text is None else text):
        if mount.fstype not in _PASSING and not _OF_PEOPLE.match(mount.point):
            found[mount.point] = "\n".join(_words(mount))  # the last one mounted there counts
    for _, lines in files(place, ["/etc/fstab"]):
        for line in lines:
            words = line.split()
            if len(words) >= 4:
                source, point, fstype, options = words[:4]
                found[f"fstab {point}"] = "\n".join([source, fstype, *options.split(",")])
    return found


def _words(mount: Mount) -> list[str]:
    source = [mount.source] if NETWORK.match(mount.fstype) else []
    options = [*mount.flags.split(","), *mount.options.split(",")]
    return [mount.fstype, *source, *sorted({one for one in options if one and not _CONNECTION.match(one)})]

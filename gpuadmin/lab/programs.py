"""The programs that a lab runs, and the packages that have them. `make` reads it before there is an environment.

So it imports nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping

#: tool → packages of Debian and Ubuntu that have it.
PACKAGES: Mapping[str, str] = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "tar": "tar",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ps": "procps",
    "newuidmap": "uidmap",
    "unshare": "util-linux",
    "losetup": "mount",
    "mkfs.btrfs": "btrfs-progs",
    "btrfs": "btrfs-progs",
    "ip": "iproute2",
    "modprobe": "kmod",
    "cc": "gcc libc6-dev",
    "OVMF": "ovmf",
    "ubuntu-keyring": "ubuntu-keyring",
    "debian-archive-keyring": "debian-archive-keyring",
}

#: Those of them that only some options of the lab need.
OPTIONAL = frozenset({"OVMF"})

#: Those of them that light hosts need, and those that only the making of their disk does.
LIGHT = ("unshare", "losetup", "mkfs.btrfs", "btrfs", "ip")
LIGHT_DISK = ("cc",)


def search_path() -> str:
    """Return $PATH with the sbin directories, which a plain user's PATH lacks on Debian."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def missing_tools(tools: Iterable[str]) -> list[str]:
    """Given programs, return those that this machine lacks."""
    return [tool for tool in tools if shutil.which(tool, path=search_path()) is None]

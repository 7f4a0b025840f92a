"""The programs that a lab runs, and the packages that have them. `make` reads it before there is an environment.

So it imports nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping

#: tool → (Debian/Ubuntu, Fedora, Arch) packages that have it.
PACKAGES: Mapping[str, tuple[str, str, str]] = {
    "qemu-system-x86_64": ("qemu-system-x86", "qemu-system-x86-core", "qemu-system-x86"),
    "qemu-img": ("qemu-utils", "qemu-img", "qemu-img"),
    "mmdebstrap": ("mmdebstrap", "mmdebstrap", "mmdebstrap (AUR)"),
    "tar": ("tar", "tar", "tar"),
    "ssh": ("openssh-client", "openssh-clients", "openssh"),
    "ssh-keygen": ("openssh-client", "openssh-clients", "openssh"),
    "ps": ("procps", "procps-ng", "procps-ng"),
    "newuidmap": ("uidmap", "shadow-utils", "shadow"),
    "unshare": ("util-linux", "util-linux", "util-linux"),
    "losetup": ("mount", "util-linux", "util-linux"),
    "mkfs.btrfs": ("btrfs-progs", "btrfs-progs", "btrfs-progs"),
    "btrfs": ("btrfs-progs", "btrfs-progs", "btrfs-progs"),
    "ip": ("iproute2", "iproute", "iproute2"),
    "modprobe": ("kmod", "kmod", "kmod"),
    "cc": ("gcc libc6-dev", "gcc", "gcc"),
    "OVMF": ("ovmf", "edk2-ovmf", "edk2-ovmf"),
    "ubuntu-keyring": ("ubuntu-keyring", "ubu-keyring", "ubuntu-keyring"),
    "debian-archive-keyring": ("debian-archive-keyring", "debian-keyring", "debian-archive-keyring"),
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

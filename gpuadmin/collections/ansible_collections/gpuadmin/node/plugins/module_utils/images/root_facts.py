"""What a root or a node is: whether it can boot, its system, its space, its units. Looks, changes nothing."""

from __future__ import annotations

import os
import re

from ..errors import NodeError
from ..gpus import kernels, pci
from ..run import LOOKING, run

#: Reboots a trial that is not confirmed in time, from before the root is mounted (role btrfs_root).
EARLY = "etc/initramfs-tools/scripts/init-top/gpuadmin-trial"


def check_boots(root: str, name: str) -> None:
    """Refuse an image without kernel and initramfs, or without the modules of that kernel."""
    for link in ("vmlinuz", "initrd.img"):
        target = os.path.join(root, link)
        if os.path.islink(target):
            target = os.path.join(root, os.readlink(target).lstrip("/"))
        if not os.path.isfile(target) or os.path.getsize(target) == 0:
            raise NodeError(f"image {name} has no {link} to boot; it is not used")
    if not os.path.lexists(os.path.join(root, "etc/systemd/system/multi-user.target.wants/gpuadmin-trial.service")):
        raise NodeError(f"image {name} has no unit that would judge its trial (gpuadmin-trial.service); it is not used")
    if os.path.isdir(os.path.join(root, "etc/initramfs-tools")) and not os.path.exists(os.path.join(root, EARLY)):
        raise NodeError(f"image {name} has nothing that would end a trial that hangs (/{EARLY}); it is not used")
    version = kernel_version(root)
    if not os.path.isfile(os.path.join(root, "usr/lib/modules", version, "modules.dep")):
        raise NodeError(f"image {name} has no modules for its kernel {version}; it is not used")


def check_driver(root: str, name: str, gpus: int | None) -> None:
    """Refuse an image on which GPUs would not work: for each of its kernels the module, of the libraries' version.

    ``gpus``: how many the inventory expects on this node. An image in which there is no
    driver, for nodes of which nobody expects a GPU, is as it should be.
    """
    wrong = kernels.problems(kernels.look(root), expected=bool(gpus))
    if wrong:
        raise NodeError(
            f"image {name} is not used, since GPUs would not work with it: {'; '.join(wrong)}. "
            "Build it again with what is missing (--install, --run or --shell)"
        )


def kernel_version(root: str) -> str:
    """The version of the kernel that a root boots, by the name that /vmlinuz points to."""
    path = os.path.join(root, "vmlinuz")
    name = os.path.basename(os.readlink(path)) if os.path.islink(path) else ""
    return name.partition("-")[2] or (sorted(os.listdir(os.path.join(root, "usr/lib/modules"))) or [""])[-1]


def os_release(root: str) -> dict[str, str]:
    """os-release(5) of a root."""
    for name in ("etc/os-release", "usr/lib/os-release"):
        try:
            with open(os.path.join(root, name), encoding="utf-8") as stream:
                pairs = (line.strip().partition("=") for line in stream)
                return {key: value.strip("\"'") for key, equals, value in pairs if equals}
        except OSError:
            continue
    return {}


def free_bytes(top: str) -> dict[str, int]:
    """Bytes that data and metadata can still take, from `btrfs filesystem usage`."""
    known = {}
    for line in run(("btrfs", "filesystem", "usage", "-b", top)).splitlines():
        key, colon, value = line.strip().partition(":")
        if colon and value.split():
            known[key] = value.split()[0] if not key.startswith(("Data,", "Metadata,")) else value
    unallocated = int(known.get("Device unallocated", "0"))
    left = 0
    for key, value in known.items():
        if key.startswith("Metadata,"):
            words = dict(word.strip(" ,").split(":", 1) for word in value.replace(", ", ",").split(",") if ":" in word)
            left = int(words.get("Size", "0").split()[0]) - int(words.get("Used", "0").split()[0])
    copies = float(known.get("Metadata ratio", "1"))  # 2 where it is kept twice (DUP, RAID1)
    # not statvfs, which says that nothing is free where metadata is full
    return {"data": int(known.get("Free (estimated)", "0")), "metadata": left + int(unallocated / copies)}


def baseline() -> dict[str, object]:
    """How the node is before a switch, for the health checks to compare with."""
    return {"failed_units": failed_units(), "gpus": pci.summary()}


def send_version() -> int:
    """The highest version of send streams that kernel and btrfs-progs here can take (2: kernel 6.0, progs 6.0)."""
    try:
        with open("/sys/fs/btrfs/features/send_stream_version", encoding="ascii") as stream:
            kernel = int(stream.read())
    except (OSError, ValueError):
        return 1
    progs = re.search(r"v(\d+)\.", run(("btrfs", "--version")))
    return min(kernel, 2) if progs and int(progs.group(1)) >= 6 else 1


def failed_units() -> list[str]:
    if not os.path.isdir("/run/systemd/system"):
        return []
    units = run(("systemctl", "list-units", "--failed", "--plain", "--no-legend"), seconds=LOOKING)
    return sorted(line.split()[0] for line in units.splitlines() if line.split())


def packages(root: str) -> dict[str, str]:
    """The packages of a root that are installed: name → version."""
    base = os.path.join(root, "usr/lib/sysimage")
    if not os.path.isdir(f"{base}/dpkg"):
        return {}
    form = "${Package} ${Version} ${db:Status-Status}\n"
    # dpkg also knows the version of what was removed except for its settings
    lines = (line.split() for line in run(("dpkg-query", f"--admindir={base}/dpkg", "-W", "-f", form)).splitlines())
    return {
        columns[0]: columns[1]
        for columns in lines
        if len(columns) > 1 and columns[-1] not in ("config-files", "not-installed")
    }

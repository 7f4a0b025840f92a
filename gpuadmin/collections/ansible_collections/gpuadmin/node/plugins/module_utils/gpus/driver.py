"""NVIDIA's driver on a host: the kernel module, the libraries, whether they agree, and what is missing in words.

Nothing of the driver is called: all of it is in files.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.common.records import gpus as records
from gpuadmin.common.records.gpus import OnBus

LIBRARY = "libnvidia-ml.so.1"
#: What a program loads of the driver: to ask it (NVML), and to compute (CUDA).
LIBRARIES = (LIBRARY, "libcuda.so.1")
#: Where distributions and NVIDIA's own installer put libraries.
DIRECTORIES = (
    "usr/lib/*-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/*-linux-gnu/nvidia/current",
    "usr/local/nvidia/lib64",
)
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){1,3}")
#: Debian calls it nvidia-current, or by an older series; nvidia-drm and the like are others, and so is
#: nvidia-wmi-ec-backlight, which is the kernel's own.
_MODULE = re.compile(r"(?m)^([^:\s]*/nvidia(?:-(?:current|tesla|legacy)(?:-[0-9]+(?:xx)?)?)?(?:-open)?\.ko(?:\.\w+)?):")
_MOST = 8 << 20  # bytes of modules.dep; a distribution's has half a million
_LINKS = 40  # as many as the kernel follows


@dataclass(frozen=True)
class Driver(records.Driver):
    """What of NVIDIA's driver is here."""

    @property
    def differ(self) -> bool:
        """Whether module and libraries are of different versions; False where one of them is not known."""
        return self.module is not None and self.libraries is not None and self.module != self.libraries


def look(root: str = "/", kernel: str | None = None) -> Driver:
    """What is on the host whose files are below ``root``."""
    running = os.uname().release if kernel is None else kernel
    line = _read(os.path.join(root, "proc/driver/nvidia/version"))
    version = _read(os.path.join(root, "sys/module/nvidia/version")).strip() or _module_version(line)
    library = find_library(root)
    return Driver(
        kernel=running,
        module=version or None,
        open_module="Open Kernel Module" in line,
        built=has_module(root, running),
        nouveau=os.path.isdir(os.path.join(root, "sys/module/nouveau")),
        library=library,
        libraries=None if library is None else library_version(library, root),
        nodes=os.path.exists(os.path.join(root, "dev/nvidiactl")),
    )


def find_library(root: str = "/", name: str = LIBRARY) -> str | None:
    """A library that programs load, as the first of the usual directories has it."""
    for pattern in DIRECTORIES:
        for directory in sorted(glob.glob(os.path.join(root, pattern))):
            path = os.path.join(directory, name)
            if os.path.exists(resolved(path, root)):
                return path
    return None


def library_version(path: str, root: str = "/") -> str | None:
    """The version in the name of the file that a library's link leads to: libnvidia-ml.so.550.163.01."""
    suffix = os.path.basename(resolved(path, root)).rpartition(".so.")[2]
    return suffix if _VERSION.fullmatch(suffix) and suffix != "1" else None


def resolved(path: str, root: str = "/") -> str:
    """Where a path leads in a root that need not be the running one: an absolute link begins at ``root``.

    Debian's libraries are links by way of /etc/alternatives. A circle of links ends where it began.
    """
    base = os.path.normpath(root)
    parts, done, links = os.path.relpath(path, base).split(os.sep), "", 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            done = os.path.dirname(done)
            continue
        here = os.path.join(base, done, part)
        if not os.path.islink(here):
            done = os.path.join(done, part)
            continue
        links += 1
        if links > _LINKS:
            return path
        target = os.readlink(here)
        done = (
            # guard: libraries are read in the image, not in the root that runs -> target
            "" if os.path.isabs(target) else done
        )
        parts = [one for one in target.split(os.sep) if one not in ("", ".")] + parts
    return os.path.join(base, done)


def module_files(root: str, kernel: str) -> list[str]:
    """The files of a kernel's module nvidia, compressed or not: those that modules.dep names and that are there."""
    for base in ("usr/lib/modules", "lib/modules"):
        directory = os.path.join(root, base, kernel)
        text = _read(os.path.join(directory, "modules.dep"), _MOST)
        if text:
            # Red Hat's kernels share a module by links (weak-updates)
            named = [resolved(os.path.join(directory, one), root) for one in _MODULE.findall(text)]
            return [path for path in named if os.path.isfile(path)]
    return []


def has_module(root: str, kernel: str) -> bool:
    """Whether a kernel's directory has the module nvidia."""
    return bool(module_files(root, kernel))


def missing(driver: Driver, devices: Sequence[OnBus]) -> list[str]:
    """Why NVIDIA's GPUs on the bus cannot be used, each with what to do; nothing where the driver is whole."""
    if not devices:
        return []
    found = []
    for other, what in (
        ("nouveau", "keep nouveau out of the kernel (a line `blacklist nouveau` in the initramfs, too) and reboot"),
        ("vfio-pci", "it is given to a virtual machine"),
    ):
        held = [one.address for one in devices if one.driver == other]
        if held:
            found.append(f"{', '.join(held)}: its driver is {other}: {what}")
    if driver.module is None and not any(one.driver == "vfio-pci" for one in devices):
        has = f"but kernel {driver.kernel} has it: modprobe nvidia, and dmesg says why it did not"
        found.append(
            "the module nvidia is not loaded, "
            + (has if driver.built else f"and kernel {driver.kernel} has none: install the driver for this kernel")
        )
    if driver.library is None:
        found.append(f"{LIBRARY} is not installed: install the driver's libraries")
    if driver.differ:
        found.append(
            f"the loaded module is {driver.module}, the libraries are {driver.libraries}: reboot, "
            "or install libraries and module of one version"
        )
    if driver.module is not None:
        bare = [one.address for one in devices if one.driver is None]
        if bare:
            found.append(f"{', '.join(bare)}: the driver has not taken it: dmesg says why")
        if not driver.nodes:
            found.append("/dev/nvidiactl is missing: nvidia-modprobe, or the unit nvidia-persistenced, makes it")
    return found


def _module_version(text: str) -> str | None:
    """From /proc/driver/nvidia/version: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Mon …`."""
    line = next((line for line in text.splitlines() if line.startswith("NVRM")), "")
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(%s)\b" % _VERSION.pattern, line)
    return found.group(1) if found else None


def _read(path: str, most: int = 4096) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read(most)
    except OSError:
        return ""

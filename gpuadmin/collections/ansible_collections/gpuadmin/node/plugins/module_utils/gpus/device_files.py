"""Which GPUs a host has, by the driver's files alone, and through which device files each is opened."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from ..paths import RUN
from . import mig
from .gate import Settings

_UUID = re.compile(r"(?m)^GPU UUID:\s*(GPU-[0-9a-f-]{36})\s*$")
_CAPABILITY = re.compile(r"(?m)^DeviceFileMinor: (\d{1,6})$")
_MODEL = re.compile(r"(?m)^Model:\s*(\S.{0,95}?)\s*$")
_MINOR = re.compile(r"(?m)^Device Minor:\s*([0-9]{1,3})\s*$")


def _parts(root: str) -> set[str]:
    """The files that open parts of divided GPUs: for those that are there now the driver says which."""
    base = "capabilities/gpu*/mig/gi*"
    texts = [*_read_files(root, f"{base}/access"), *_read_files(root, f"{base}/ci*/access")]
    minors = [found[1] for _path, text in texts if (found := _CAPABILITY.search(text))]
    return {f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors}


def _read_files(root: str, pattern: str) -> Iterator[tuple[str, str]]:
    """The driver's files of this pattern, each with what is in it."""
    for path in sorted(glob.glob(os.path.join(glob.escape(root), "proc/driver/nvidia", pattern))):
        try:
            with open(path, encoding="ascii", errors="replace") as stream:
                yield path, stream.read(4096)
        except OSError:  # it has gone meanwhile
            continue


def all_files(settings: Settings, there: Mapping[str, Sequence[str]], root: str = "/") -> list[str]:
    """Every file that opens a GPU, also of one that does not answer, or that has no name until it is used first."""
    found = [path for paths in there.values() for path in paths]
    if settings.gpus is None:
        patterns = ("dev/nvidia[0-9]*", "dev/nvidia-caps/*", "dev/dri/*[0-9]")
        names = [path for one in patterns for path in sorted(glob.glob(os.path.join(glob.escape(root), one)))]
        found += [f"/{os.path.relpath(path, root)}" for path in names]
    return list(dict.fromkeys(found))


def model(root: str = "/") -> str | None:
    """What the GPUs are called, as the driver's files have it; None where they differ, or none is there."""
    names = [_MODEL.search(text) for _path, text in _read_files(root, "gpus/*/information")]
    found = {None if named is None else named[1] for named in names}
    return found.pop() if len(found) == 1 else None


def gpus(settings: Settings, root: str = "/") -> Mapping[str, list[str]]:
    """GPU → its device files: /dev/nvidiaN, and those of direct rendering. In the order of addresses on the bus.

    The driver is not asked: one that hangs would hold up what closes a GPU. A GPU is called by its UUID. After the
    GPUs come the MIG devices that gpuadmin made; whoever was granted a GPU has all of its devices.
    """
    if settings.gpus is not None:
        return {name: list(paths) for name, paths in settings.gpus.items()}
    found = {}
    for path, text in _read_files(root, "gpus/*/information"):
        uuid, minor = _UUID.search(text), _MINOR.search(text)
        if uuid is None or minor is None:
            continue  # it does not answer; what has no name is granted to nobody
        address = os.path.basename(os.path.dirname(path))
        drm = sorted(glob.glob(os.path.join(root, f"sys/bus/pci/devices/{address}/drm/*")))
        rendering = [
            f"/dev/dri/{name}" for name in map(os.path.basename, drm) if re.fullmatch(r"(card|renderD)\d+", name)
        ]
        found[uuid.group(1)] = [f"/dev/nvidia{minor.group(1)}", *rendering]
    there = _parts(root)
    for one in mig.read(os.path.join(root, RUN.lstrip("/"))):
        # guard: a MIG device that is gone opens nothing, for its files open the whole GPU
        if one.gpu in found and one.files[:1] == found[one.gpu][:1] and there.issuperset(one.files[1:]):
            found[one.gpu] += [path for path in one.files if path not in found[one.gpu]]
            found[one.uuid] = list(one.files)
    return found

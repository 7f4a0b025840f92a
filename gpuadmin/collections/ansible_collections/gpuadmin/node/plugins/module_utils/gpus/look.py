"""All that can be known of a node's GPUs, in one look: the bus, the driver's files, NVML, the kernel's log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.records.gpus import OnBus

from ..documents import to_plain
from ..errors import NodeError
from . import cdi, checked, nvml, pci, tried, xid
from . import driver as drivers
from .isolated_call import LOCK, isolated_call

SECONDS = 20.0  # without nvidia-persistenced the driver wakes every GPU first, which takes seconds for each
#: What errors of NVML mean where it answers nothing at all.
WORDS = {
    "DRIVER_NOT_LOADED": "the driver is not loaded",
    "LIB_RM_VERSION_MISMATCH": "the libraries are of another version than the loaded module: reboot",
    "NO_PERMISSION": "the device nodes of the GPUs may not be opened",
    "GPU_NOT_FOUND": "the driver finds no GPU",
}


@dataclass(frozen=True)
class Places:
    """Where to look. Tests put it elsewhere."""

    root: str = "/"
    bus: str = pci.BUS
    names: tuple[str, ...] = pci.NAMES
    log: str = xid.LOG
    lock: str = LOCK
    library: str | None = None


@dataclass(frozen=True)
class Seen:
    """``nvml``: what nvml.read returns, or None; ``problem``: why there is none, if the driver was to be asked.

    ``xids``: what xid.read returns; None if the kernel's log may not be read. ``containers``: what cdi.look returns.
    ``kernels``: what checked.problems returns: why GPUs would not work after a boot into another kernel, or this one.
    ``gate``: what tried.problems returns: why somebody may open a GPU that nobody granted them.
    """

    devices: Sequence[OnBus]
    driver: drivers.Driver
    nvml: Mapping[str, Any] | None = None
    problem: str | None = None
    xids: Sequence[Mapping[str, Any]] | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    containers: cdi.Spec | None = None
    kernels: Sequence[str] = ()
    gate: Sequence[str] = ()

    @property
    def missing(self) -> list[str]:
        return drivers.missing(self.driver, self.devices)

    @property
    def gpus(self) -> list[Mapping[str, Any]]:
        """The GPUs that NVML counts, also those that do not answer."""
        return list(self.nvml["gpus"]) if self.nvml is not None else []

    def to_report(self) -> dict[str, Any]:
        """Return the report without the findings of `judge`."""
        found = {"pci": self.devices, "driver": self.driver, "missing": self.missing, "nvml": self.nvml}
        more = {"problem": self.problem, "xids": self.xids, "unknown": self.unknown, "kernels": self.kernels}
        return dict(to_plain({**found, **more}))


def look(places: Places | None = None, *, seconds: float = SECONDS, kernels: bool = True) -> Seen:
    """Look once. It takes up to ``seconds`` where the driver hangs, and some milliseconds where it does not.

    ``kernels``: whether to look at each kernel's module, which takes seconds where nobody has done it before.
    """
    where = places or Places()
    devices = pci.devices(where.bus, where.names)
    driver = drivers.look(where.root)
    path = where.library or driver.library
    found: Mapping[str, Any] | None = None
    problem = None
    if path is not None:
        try:
            found = isolated_call(lambda: nvml.read(path), seconds=seconds, lock=where.lock)
        except NodeError as error:
            problem = str(error)
            problem = WORDS.get(problem.partition(" ")[0], problem)
    unknown = {}
    xids = None
    try:
        xids = xid.read(where.log)
    except OSError as error:
        unknown["xids"] = f"{where.log} cannot be read: {error.strerror}"
    containers = cdi.look(where.root)
    wrong = checked.problems(where.root) if kernels else ()
    # people who ask about themselves are not told of open doors
    gate = (tried.problems(where.root) or ()) if os.geteuid() == 0 else ()
    return Seen(devices, driver, found, problem, xids, unknown, containers, wrong, gate)

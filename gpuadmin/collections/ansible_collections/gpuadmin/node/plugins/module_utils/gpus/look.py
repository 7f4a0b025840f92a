"""All that can be known of a node's GPUs, in one look: the bus, the driver's files, NVML, the kernel's log. And, from
what was seen and what is expected, whether they are as they should be.

A trial of an image goes back for some of it, so none of it is what people on the node can cause: heat and clocks, or
the errors that the driver notes for a person's program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.records.gpus import OnBus

from ..documents import to_plain
from ..errors import NodeError
from . import cdi, nvml, pci, xid
from . import driver as drivers
from .gate import problems
from .isolated_call import LOCK, isolated_call
from .kernels import boot_problems

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
    ``kernels``: what kernels.boot_problems returns: why GPUs would not work after a boot into this or another kernel.
    ``gate``: what gate.problems returns: why somebody may open a GPU that nobody granted them.
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
    def answering(self) -> list[str] | None:
        """UUIDs of the GPUs that answer, and of their MIG devices; None where the driver says nothing."""
        good = [one for one in self.gpus if one["problem"] is None]
        parts = [part for one in good for part in one.get("mig_devices") or ()]
        return None if self.nvml is None else [str(one.get("uuid")) for one in (*good, *parts)]

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
    wrong = boot_problems(where.root) if kernels else ()
    # people who ask about themselves are not told of open doors
    gate = (problems(where.root) or ()) if os.geteuid() == 0 else ()
    return Seen(devices, driver, found, problem, xids, unknown, containers, wrong, gate)


@dataclass(frozen=True)
class Expected:
    """What the inventory says of a node. ``number``: None if it says nothing. ``model``: a part of the name. ``watts``:
    how much each may draw."""

    number: int | None = None
    model: str = ""
    watts: int | None = None


#: nvml.h: nvmlDeviceGpuRecoveryAction_t.
RECOVERIES = {
    1: "a reset of the GPU", 2: "a reboot of the node", 3: "an end of all programs that use several GPUs",
    4: "a reset of the GPU when no program uses it", 6: "a reset of its bus", 7: "a reboot of the whole system",
}  # fmt: skip


@dataclass(frozen=True)
class Sick:
    """Why nobody should begin to compute, on one GPU or (``gpu`` is empty) on the node. ``gpu``: its UUID, or its
    number where it does not say one. ``passes``: when it is no longer so, nobody has to say that it was mended."""

    words: str
    gpu: str = ""
    passes: bool = False


@dataclass(frozen=True)
class Verdict:
    """``answering``: how many GPUs answer. ``broken``: nobody should compute here; ``worse``: less than expected.
    ``sick``: for what of both no further work begins."""

    answering: int
    broken: tuple[str, ...]
    worse: tuple[str, ...]
    sick: tuple[Sick, ...] = ()


def judge(seen: Seen, expected: Expected) -> Verdict:
    """A node that has no GPU and is expected to have none is fine."""
    number = sum(1 for one in seen.gpus if one["problem"] is None)
    here = bool(seen.devices or seen.gpus)
    bad, less = [*_broken(seen)], [*_less(seen)]
    worse = [*(one.words for one in less), *_worse(seen, expected)]
    if expected.number and not number:  # guard: a node whose GPUs are all gone is broken
        none = f"none of {_counted(expected.number)} answers"
        why = [*seen.missing, *([seen.problem] if seen.problem else [])]
        bad.insert(0, Sick(f"{none}: {'; '.join(why) or _where(seen)}", passes=True))
    elif expected.number is not None and number != expected.number:
        worse.insert(0, f"{number} of {_counted(expected.number)} answer" if number < expected.number else _more(seen))
    if here and not number and not expected.number:
        nothing = "the inventory says nothing of them" if expected.number is None else "none is expected"
        reason = "; ".join(seen.missing) or seen.problem or "none answers"
        worse.append(f"GPUs without a driver that answers ({nothing}): {reason}")
    # guard: a GPU that may not be asked is not lost
    less = [one for one in less if "NO_PERMISSION" not in one.words]
    return Verdict(number, tuple(one.words for one in bad), tuple(worse), (*bad, *less))


def _counted(number: int) -> str:
    return f"{number} expected GPU{'' if number == 1 else 's'}"


def _where(seen: Seen) -> str:
    return "the bus has them" if seen.devices else "none is on the PCI bus: switched off in the firmware, or pulled out"


def _more(seen: Seen) -> str:
    return "more GPUs answer than the inventory expects: correct its number (gpus)"


def _broken(seen: Seen) -> Iterator[Sick]:
    if seen.driver.differ:  # guard: module and libraries of a driver agree
        yield Sick(
            f"the loaded module is {seen.driver.module}, the libraries are {seen.driver.libraries}: "
            "nothing can use a GPU before a reboot"
        )
    elif seen.problem and seen.driver.module is not None and seen.devices:
        yield Sick(f"the driver is loaded and does not answer: {seen.problem}", passes=True)
    for gpu in seen.gpus:
        if gpu.get("ecc_uncorrected"):  # guard: a GPU whose memory is bad is to be kept away from
            count = gpu["ecc_uncorrected"]
            yield _sick(gpu, f": {count} memory errors that ECC could not correct: reset or replace it")
        if gpu.get("remapped_failed"):
            yield _sick(gpu, ": a bad row of memory could not be remapped: replace it")
    for entry in seen.xids or ():
        if entry["xid"] in xid.STAY_AWAY:  # guard: errors of people's programs send no node back -> True
            yield _of_xid(seen, entry, f"{xid.STAY_AWAY[int(entry['xid'])]}): reset or replace it")


def _less(seen: Seen) -> Iterator[Sick]:
    """What is worse, and keeps further work away as well."""
    silent = _find_silent(seen)
    for gpu in seen.gpus:
        if gpu["problem"] is not None:
            # a lost one does not say where it is, so it is not one of those that do
            where = "" if gpu.get("address") or not silent else f" (silent on the bus: {', '.join(silent)})"
            yield _sick(gpu, f" does not answer: {gpu['problem']}{where}")
        width, most = gpu.get("pcie_width"), gpu.get("pcie_width_max")
        if width and most and width < most:
            yield _sick(gpu, f": PCIe has {width} of {most} lanes: look at the slot, the riser and the firmware")
        if gpu.get("recovery"):  # guard: a GPU whose driver asks for a reset is to be kept away from
            action = RECOVERIES.get(gpu["recovery"], f"recovery action {gpu['recovery']}")
            yield _sick(gpu, f": the driver asks for {action}: dmesg says why")
    # a driver that says what it asks for now needs no log of what it has asked for: the GPU may have been reset since
    current = {gpu.get("address") for gpu in seen.gpus if gpu.get("recovery") is not None}
    for entry in seen.xids or ():
        if entry["xid"] == xid.RESET and entry["address"] not in current:
            yield _of_xid(seen, entry, f"{xid.WORSE[xid.RESET]})")


def _worse(seen: Seen, expected: Expected) -> Iterator[str]:
    for gpu in seen.gpus:
        name = _name(gpu)
        if gpu["problem"] is not None:
            continue
        if gpu.get("remapped_pending"):
            yield f"{name}: a bad row of memory is remapped at its next reset: reboot when it is idle"
        if expected.model and expected.model.casefold() not in str(gpu.get("name")).casefold():
            yield f"{name} is {gpu.get('name')}, expected is {expected.model}"
        if expected.watts and (gpu.get("power_limit") or 0) > expected.watts:
            cap = f"gpus.power_cap is {expected.watts} W: systemctl restart gpuadmin-gpu-power"
            yield f"{name} may draw {gpu['power_limit']:g} W, and {cap}"
    if seen.gpus and all(gpu["problem"] is None for gpu in seen.gpus):
        for address in _find_silent(seen):
            yield f"{address} is on the bus, and the driver does not have it: dmesg says why"
    for entry in seen.xids or ():
        if entry["xid"] in xid.WORSE and entry["xid"] != xid.RESET:
            yield _of_xid(seen, entry, f"{xid.WORSE[int(entry['xid'])]})").words
    if seen.problem is None:  # otherwise it is not known which of them answer
        yield from cdi.wrong(seen.containers, seen.gpus)
    yield from seen.kernels
    yield from seen.gate


def _find_silent(seen: Seen) -> list[str]:
    """Addresses of the GPUs on the bus that the driver does not place."""
    taken = {str(gpu.get("address")) for gpu in seen.gpus}
    return [one.address for one in seen.devices if one.address not in taken]


def _sick(gpu: Mapping[str, Any], words: str) -> Sick:
    return Sick(f"{_name(gpu)}{words}", str(gpu.get("uuid") or gpu["index"]))


def _of_xid(seen: Seen, entry: Mapping[str, Any], words: str) -> Sick:
    gpu = next((one for one in seen.gpus if one.get("address") == entry["address"]), None)
    words = f": Xid {entry['xid']} ({words}"
    return Sick(f"{entry['address']}{words}") if gpu is None else _sick(gpu, words)


def _name(gpu: Mapping[str, Any]) -> str:
    where = gpu.get("address") or gpu.get("uuid")
    return f"GPU {gpu['index']}" + (f" ({where})" if where else "")

"""Whether a node's GPUs are as they should be. Pure: from what was seen and what is expected to sentences.

A trial of an image goes back for some of it, so none of it is what people on the node can cause: heat and clocks, or
the errors that the driver notes for a person's program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import cdi, xid
from .look import Seen


@dataclass(frozen=True)
class Expected:
    """What the inventory says of a node. ``number``: None if it says nothing. ``model``: a part of the name."""

    number: int | None = None
    model: str = ""


@dataclass(frozen=True)
class Verdict:
    """``answering``: how many GPUs answer. ``broken``: nobody should compute here; ``worse``: less than expected."""

    answering: int
    broken: tuple[str, ...]
    worse: tuple[str, ...]


def judge(seen: Seen, expected: Expected) -> Verdict:
    """A node that has no GPU and is expected to have none is fine."""
    number = sum(1 for one in seen.gpus if one["problem"] is None)
    here = bool(seen.devices or seen.gpus)
    broken, worse = [*_broken(seen)], [*_worse(seen, expected)]
    if expected.number and not number:  # guard: a node whose GPUs are all gone is broken
        none = f"none of {_counted(expected.number)} answers"
        why = [*seen.missing, *([seen.problem] if seen.problem else [])]
        broken.insert(0, f"{none}: {'; '.join(why)}" if why else f"{none}: {_where(seen)}")
    elif expected.number is not None and number != expected.number:
        worse.insert(0, f"{number} of {_counted(expected.number)} answer" if number < expected.number else _more(seen))
    if here and not number and not expected.number:
        nothing = "the inventory says nothing of them" if expected.number is None else "none is expected"
        reason = "; ".join(seen.missing) or seen.problem or "none answers"
        worse.append(f"GPUs without a driver that answers ({nothing}): {reason}")
    return Verdict(number, tuple(broken), tuple(worse))


def _counted(number: int) -> str:
    return f"{number} expected GPU{'' if number == 1 else 's'}"


def _where(seen: Seen) -> str:
    return "the bus has them" if seen.devices else "none is on the PCI bus: switched off in the firmware, or pulled out"


def _more(seen: Seen) -> str:
    return "more GPUs answer than the inventory expects: correct its number (gpus)"


def _broken(seen: Seen) -> Iterator[str]:
    if seen.driver.differ:  # guard: module and libraries of a driver agree
        yield (
            f"the loaded module is {seen.driver.module}, the libraries are {seen.driver.libraries}: "
            "nothing can use a GPU before a reboot"
        )
    elif seen.problem and seen.driver.module is not None and seen.devices:
        yield f"the driver is loaded and does not answer: {seen.problem}"
    for gpu in seen.gpus:
        if gpu.get("ecc_uncorrected"):  # guard: a GPU whose memory is bad is to be kept away from
            count = gpu["ecc_uncorrected"]
            yield f"{_name(gpu)}: {count} memory errors that ECC could not correct: reset or replace it"
        if gpu.get("remapped_failed"):
            yield f"{_name(gpu)}: a bad row of memory could not be remapped: replace it"
    for entry in seen.xids or ():
        if entry["xid"] in xid.STAY_AWAY:  # guard: errors of people's programs send no node back -> True
            yield f"{entry['address']}: Xid {entry['xid']} ({xid.STAY_AWAY[int(entry['xid'])]}): reset or replace it"


def _worse(seen: Seen, expected: Expected) -> Iterator[str]:
    taken = {str(gpu.get("address")) for gpu in seen.gpus}
    silent = [one.address for one in seen.devices if one.address not in taken]
    for gpu in seen.gpus:
        name = _name(gpu)
        if gpu["problem"] is not None:
            # a lost one does not say where it is, so it is not one of those that do
            where = "" if gpu.get("address") or not silent else f" (silent on the bus: {', '.join(silent)})"
            yield f"{name} does not answer: {gpu['problem']}{where}"
            continue
        if gpu.get("remapped_pending"):
            yield f"{name}: a bad row of memory is remapped at its next reset: reboot when it is idle"
        width, most = gpu.get("pcie_width"), gpu.get("pcie_width_max")
        if width and most and width < most:
            yield f"{name}: PCIe has {width} of {most} lanes: look at the slot, the riser and the firmware"
        if expected.model and expected.model.casefold() not in str(gpu.get("name")).casefold():
            yield f"{name} is {gpu.get('name')}, expected is {expected.model}"
    if seen.gpus and all(gpu["problem"] is None for gpu in seen.gpus):
        for address in silent:
            yield f"{address} is on the bus, and the driver does not have it: dmesg says why"
    for entry in seen.xids or ():
        if entry["xid"] in xid.WORSE:
            yield f"{entry['address']}: Xid {entry['xid']} ({xid.WORSE[int(entry['xid'])]})"
    if seen.problem is None:  # otherwise it is not known which of them answer
        yield from cdi.wrong(seen.containers, seen.gpus)
    yield from seen.kernels
    yield from seen.gate


def _name(gpu: Mapping[str, Any]) -> str:
    where = gpu.get("address") or gpu.get("uuid")
    return f"GPU {gpu['index']}" + (f" ({where})" if where else "")

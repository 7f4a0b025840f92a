"""The sampler's record, as the mapper reads it: written by an account without rights, and checked strictly."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from ..bounded import read_small
from ..errors import NodeError

LARGEST = 4 << 20  # bytes
MOST_DEVICES = 64 * 8  # a GPU has at most seven parts
MOST_PIDS = 8192  # of all devices
_MOST_OF_ONE = 2048  # of one device


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG device of one (``gi``, ``ci``: its instances). ``busy``, ``processes``: None if not known.

    ``processes``: bytes of GPU memory by pid, None if the driver does not say.
    """

    uuid: str
    minor: int | None
    gi: int | None
    ci: int | None
    busy: bool | None
    processes: Mapping[int, int | None] | None


@dataclass(frozen=True)
class Record:
    """``seconds``: since boot, when the sample had ended."""

    seconds: float
    devices: tuple[Device, ...]


def read(path: str) -> Record | None:
    """The record; None if there is none. Raises NodeError if it is not one, or if anybody may write it."""
    try:
        facts = os.stat(os.path.dirname(path))
        if stat.S_IMODE(facts.st_mode) & 0o022:  # guard: what anybody may write is not believed by root
            raise NodeError(f"{os.path.dirname(path)} may be written by anybody")
        raw = read_small(path, most=LARGEST)
    except FileNotFoundError:
        return None
    try:
        return parse(json.loads(raw))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NodeError(f"{path} is not a record of the sampler's") from None


def parse(found: object) -> Record:
    """Raises ValueError, TypeError or KeyError if it is not a record."""
    if not isinstance(found, dict) or not isinstance(found["devices"], list):
        raise ValueError("no record")
    seconds = found["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e12:
        raise ValueError("seconds")
    if len(found["devices"]) > MOST_DEVICES:  # guard: only so many devices are taken of the sampler's record
        raise ValueError("too many devices")
    devices = tuple(_device(one) for one in found["devices"])
    # guard: only so many processes are taken of the sampler's record
    if sum(len(one.processes or ()) for one in devices) > MOST_PIDS:
        raise ValueError("too many processes")
    return Record(float(seconds), devices)


def _device(one: object) -> Device:
    if not isinstance(one, dict) or not isinstance(one["uuid"], str) or not 0 < len(one["uuid"]) <= 96:
        raise ValueError("uuid")
    busy, listed = one["busy"], one["processes"]
    if busy is not None and not isinstance(busy, bool):
        raise ValueError("busy")
    processes: dict[int, int | None] | None = None
    if listed is not None:
        if not isinstance(listed, list) or len(listed) > _MOST_OF_ONE:
            raise ValueError("processes")
        processes = {}
        for pid, memory in listed:
            number, size = _number(pid, 1 << 31), _number(memory, 1 << 60)
            if number is None:
                raise ValueError("pid")
            # one process may compute and show: it is listed twice, with the same memory
            processes[number] = size if size is not None else processes.get(number)
    gi, ci = _number(one["gi"], 1 << 16), _number(one["ci"], 1 << 16)
    return Device(one["uuid"], _number(one["minor"], 1 << 16), gi, ci, busy, processes)


def _number(value: object, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
        raise ValueError("no number")
    return value

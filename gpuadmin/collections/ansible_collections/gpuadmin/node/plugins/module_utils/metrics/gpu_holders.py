"""Who holds which GPU: from what the driver lists, what processes have open, and whose these are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuadmin.common.metrics import OTHERS, UNKNOWN

from .devices import Key
from .owners import Process
from .record import Device

MOST_CONTAINERS = 32  # of one person that are shown one by one within an hour
_HOUR = 3600.0


@dataclass
class Holding:
    """One person's (and container's) hold on a GPU. ``pids``: those that the driver lists. ``since``: since boot.

    ``memory``: bytes; None if the driver does not say.
    """

    since: float | None = None
    pids: set[int] = field(default_factory=set)
    memory: int | None = 0


#: By uuid, user and container.
Holdings = dict[tuple[str, str, str], Holding]


def list_pids(devices: Iterable[Device], held: Mapping[int, frozenset[Key]]) -> set[int]:
    """All processes that matter."""
    return {pid for one in devices for pid in one.processes or ()} | held.keys()


def holdings(
    devices: Iterable[Device],
    held: Mapping[int, frozenset[Key]],
    processes: Mapping[int, Process],
    *,
    caps: Callable[[Device], Key | None],
    container: Callable[[Process], str],
    has_open: Callable[[int, Device], bool],
    until: float,
    opened: bool = False,
) -> Holdings:
    """``held``: what each process has open; ``caps``: the device for a MIG device; ``has_open``: whether a process that
    the driver lists has it open.

    ``until``: when the driver was asked: a process that began later is not the one that it meant.
    ``opened``: whether having it open is enough, as it is where the driver does not say who uses it. What asks the
    driver (nvtop, wandb) opens every GPU, and uses none.
    """
    found: Holdings = {}
    listed = [*devices]
    divided = {one.minor for one in listed if one.gi is not None}
    shared: dict[int, set[int]] = {}  # by minor: processes that are on a part of this GPU
    for one in sorted(listed, key=lambda one: one.gi is None):
        users = set(one.processes or ())
        holders: set[int] = set()
        if opened or one.processes is None:
            holders = {pid for pid, keys in held.items() if _opens(one, keys, caps)}
        if one.minor is not None and one.minor in divided:
            parts = shared.setdefault(one.minor, set())
            if one.gi is None:
                holders -= parts
            else:
                parts |= users | holders
        for pid in users | holders:
            process = processes.get(pid)
            if pid in users and (
                process is None
                # guard: a number that is another process's by now is not the one that the driver meant
                or process.started > until
                # guard: a process that the driver lists long after its end is not the one that has its number by now
                or not has_open(pid, one)
            ):
                # it has ended, and perhaps its number is another's by now: somebody used it, and nobody knows who
                key = one.uuid, UNKNOWN, ""
                process = None
            elif process is None:
                continue
            else:
                key = one.uuid, process.user, container(process)
            entry = found.setdefault(key, Holding())
            if process is not None:
                entry.since = process.started if entry.since is None else min(entry.since, process.started)
            if pid in users:
                entry.pids.add(pid)
                memory = (one.processes or {}).get(pid)
                entry.memory = None if memory is None or entry.memory is None else entry.memory + memory
    return found


def _opens(device: Device, keys: frozenset[Key], caps: Callable[[Device], Key | None]) -> bool:
    if device.gi is not None:
        return caps(device) in keys
    return device.minor is not None and ("gpu", device.minor) in keys


class Labels:
    """Which containers of each person have been shown within the hour: more than so many become one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._names: dict[str, set[str]] = {}

    def label(self, user: str, container: str) -> str:
        if self._clock() - self._began > _HOUR:
            self._began, self._names = self._clock(), {}
        names = self._names.setdefault(user, set())
        if container and container not in names:
            if len(names) >= MOST_CONTAINERS:
                return OTHERS
            names.add(container)
        return container

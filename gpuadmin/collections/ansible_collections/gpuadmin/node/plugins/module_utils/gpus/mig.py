"""MIG: from what is wanted and what is there to what happens to each GPU; and what is remembered until the next boot.

A GPU is divided again as a whole, and only while nobody holds it or was granted it or a part of it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from gpuadmin.common.records.gpus import Division

from ..documents import parse
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import RUN

TOOL = "/usr/bin/nvidia-smi"
#: What a step is: done already, to be done, waiting for people, impossible.
AS_WANTED: Final = "as wanted"
CHANGE: Final = "change"
WAITS: Final = "waits"
REFUSED: Final = "refused"


@dataclass(frozen=True)
class Profile:
    """A profile of GPU instances: at which memory slices one may begin, and how many it takes. ``most``: at once."""

    id: int
    name: str
    most: int
    starts: Sequence[int]
    size: int


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML has it. ``on``: whether it is in MIG mode; None if it has no MIG. ``pending``: after a reset.

    ``devices``: the profiles of its MIG devices. ``instances``: how many GPU instances it has, those without a device
    included; None if that is not known. ``profiles``: None where the driver does not say, as it may while MIG is off.
    """

    index: int
    uuid: str
    on: bool | None
    pending: bool
    devices: Sequence[str]
    instances: int | None
    profiles: Sequence[Profile] | None

    @classmethod
    def of(cls, found: Mapping[str, Any], instances: int | None) -> Gpu | None:
        """Given what nvml.read has of a GPU; None where it does not answer."""
        if found["problem"] is not None or not found.get("uuid"):
            return None
        profiles = found.get("mig_profiles")
        return cls(
            found["index"],
            found["uuid"],
            found.get("mig"),
            bool(found.get("mig_pending")),
            [parse_mig_profile(str(one.get("name"))) for one in found["mig_devices"]],
            instances,
            None if profiles is None else [Profile(**one) for one in profiles],
        )


def parse_mig_profile(name: str) -> str:
    """`NVIDIA H100 80GB HBM3 MIG 1g.10gb` → `1g.10gb`."""
    return name.rpartition("MIG ")[2]


def decide(
    wanted: Mapping[int, Sequence[str]], there: Sequence[Gpu], busy: Mapping[str, Collection[str]]
) -> list[Division]:
    """A step for each GPU. ``busy``: by uuid of a GPU, who holds it or was granted it, or a part of it, in words."""
    known = {one.index for one in there}
    steps = [_step(wanted.get(gpu.index, ()), gpu, sorted(busy.get(gpu.uuid, ()))) for gpu in there]
    for index in sorted(wanted.keys() - known):
        if wanted[index]:
            steps.append(Division(index, REFUSED, "no such GPU answers", ()))
    return sorted(steps, key=lambda one: one.gpu)


def _step(wanted: Sequence[str], gpu: Gpu, people: Sequence[str]) -> Division:
    words = ", ".join(sorted(wanted)) if wanted else "whole"
    if gpu.on is None:
        if wanted:
            return Division(gpu.index, REFUSED, "it has no MIG", ())
        return Division(gpu.index, AS_WANTED, words, ())
    if (
        gpu.on == bool(wanted)
        and gpu.pending == gpu.on
        and sorted(gpu.devices) == sorted(wanted)
        and gpu.instances in (None, len(wanted))  # guard: an instance that nobody can use is noticed
    ):
        return Division(gpu.index, AS_WANTED, words, ())
    now = ", ".join(sorted(gpu.devices)) or ("MIG without devices" if gpu.on else "whole")
    change = f"{words} (now {now})"
    fitting, why = _fitting(wanted, gpu.profiles)
    if why:  # guard: what does not fit destroys nothing
        return Division(gpu.index, REFUSED, why, ())
    if people:  # guard: a GPU that somebody holds or was granted is not divided anew
        return Division(gpu.index, WAITS, change, people)
    return Division(gpu.index, CHANGE, change, (), tuple(_commands(wanted, gpu, fitting)))


def _commands(wanted: Sequence[str], gpu: Gpu, fitting: Sequence[str] | None) -> Iterator[tuple[str, ...]]:
    """What to run now. What is created is known only when the GPU is in MIG mode: the driver is asked again then."""
    of = ("-i", gpu.uuid)
    if gpu.devices:
        yield TOOL, "mig", *of, "-dci"
    if gpu.devices or gpu.instances:
        yield TOOL, "mig", *of, "-dgi"
    if gpu.on != bool(wanted) or gpu.pending != bool(wanted):
        yield TOOL, *of, "-mig", str(int(bool(wanted)))
    elif fitting:
        yield TOOL, "mig", *of, "-cgi", ",".join(fitting), "-C"


def _fitting(wanted: Sequence[str], profiles: Sequence[Profile] | None) -> tuple[Sequence[str] | None, str]:
    """Where each instance goes, as `id:start`, and why it is not possible. Both empty where it is not known yet."""
    if not wanted or profiles is None:
        return None, ""
    named = {one.name: one for one in profiles}
    unknown = sorted(set(wanted) - named.keys())
    if unknown:
        return None, f"it has no profile {', '.join(unknown)}: it has {', '.join(one.name for one in profiles)}"
    found = _placed(sorted((named[one] for one in wanted), key=lambda one: -one.size), frozenset(), {})
    return found, "" if found is not None else f"{', '.join(sorted(wanted))} do not fit on it together"


def _placed(left: Sequence[Profile], taken: frozenset[int], used: Mapping[str, int]) -> list[str] | None:
    """Places for all, largest first: the driver takes any place, and another order may leave no room for the next."""
    if not left:
        return []
    first = left[0]
    if used.get(first.name, 0) == first.most:
        return None
    for start in first.starts:
        slices = frozenset(range(start, start + first.size))
        if slices & taken:
            continue
        rest = _placed(left[1:], taken | slices, {**used, first.name: used.get(first.name, 0) + 1})
        if rest is not None:
            return [f"{first.id}:{start}", *rest]
    return None


FILE = "gpu-mig-devices.json"
WAITING = "gpu-mig-waiting.json"
STALE = 600.0  # seconds after which nobody waits any more: whoever does says so again and again
_PATH = re.compile(r"/dev/(nvidia[0-9]{1,3}|nvidia-caps/nvidia-cap[0-9]{1,6})\Z")


@dataclass(frozen=True)
class MigDevice:
    """``gpu``: the uuid of its GPU. ``files``: the GPU's device, and what opens this instance of it alone."""

    uuid: str
    gpu: str
    profile: str
    files: Sequence[str]


def write(devices: Iterable[MigDevice], run: str = RUN) -> None:
    """Remember them until the next boot, which takes them away."""
    data = json.dumps([asdict(one) for one in devices], indent=1) + "\n"
    write_atomic(os.path.join(run, FILE), data.encode(), mode=0o644, sync=False)


def read(run: str = RUN) -> list[MigDevice]:
    """Those that are recorded; none where the record is damaged: nothing is opened by it then."""
    try:
        found = json.loads(read_bytes(os.path.join(run, FILE)) or b"[]")
        devices = [parse(MigDevice, one, FILE) for one in found]
    except (NodeError, OSError, ValueError, TypeError):
        return []
    return [
        one
        for one in devices
        if all(_PATH.match(path) for path in one.files)  # guard: a record of MIG devices opens files of GPUs alone
    ]


@dataclass(frozen=True)
class Waiting:
    """``gpus``: by uuid, those that are divided as soon as nobody is on them. ``told``: uids of who knows it."""

    gpus: Sequence[str] = ()
    told: Sequence[int] = ()


def wait(waiting: Waiting, run: str = RUN) -> None:
    write_atomic(os.path.join(run, WAITING), json.dumps(asdict(waiting)).encode(), mode=0o600, sync=False)


def waiting(run: str = RUN) -> Waiting:
    """Which GPUs wait now; none if whoever waited has gone."""
    path = os.path.join(run, WAITING)
    try:
        if time.time() - os.stat(path).st_mtime > STALE:
            return Waiting()
        return parse(Waiting, json.loads(read_bytes(path) or b"{}"), WAITING)
    except (NodeError, OSError, ValueError):
        return Waiting()

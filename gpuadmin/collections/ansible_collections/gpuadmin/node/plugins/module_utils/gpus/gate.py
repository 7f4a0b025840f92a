"""The gate: which device files everything that acts for people may open, as text that systemd is told.

systemd has no list of what is denied. What is allowed is a device group (a name of /proc/devices) that does not begin
like one of the GPUs', what every CUDA program needs beside its GPU, and the GPUs that are granted. A group that is
loaded later is denied until the list is applied again, which is the safe side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ..cgroups import JOB_SERVICES, JOB_UNITS, SSH_SERVICES
from ..documents import parse
from ..errors import NodeError
from ..files import read_bytes
from ..paths import STATE

#: In the node's state: an image of a node whose GPUs are everybody's does not open those of another one.
SETTINGS = f"{STATE}/gpu-gate.json"
#: Slices of people by a drop-in for all of them; services that run what people gave them, wherever they are installed.
SLICES = "user-.slice"
SERVICES = (*SSH_SERVICES, *JOB_SERVICES, JOB_UNITS, "machine.slice")
#: Until the next boot: they are made from the settings at each one, whatever root was booted.
UNITS = "/run/systemd/system"
#: Before 50-DeviceAllow.conf, which systemctl set-property writes: of drop-ins the last name wins.
DROP_IN = "40-gpuadmin-gate.conf"
#: Unit → the path of its drop-in below UNITS.
PATHS = {unit: f"{unit}.d/{DROP_IN}" for unit in (SLICES, *SERVICES)}
#: All devices, also those that come later: a bare star is not a pattern of names to systemd.
EVERYTHING = ("block-* rwm", "char-* rwm")


@dataclass(frozen=True)
class Settings:
    """What the role has written: ``access``, which groups of devices GPUs are, and who is not kept out."""

    access: str
    #: How the names in /proc/devices begin. Direct rendering is a way to a GPU as well.
    groups: Sequence[str] = ("nvidia", "drm")
    #: What a program needs beside its GPU, and what alone gives nobody a GPU.
    control: Sequence[str] = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
    #: GPU → its device files, where they are not to be found by the driver. For tests.
    gpus: Optional[Mapping[str, Sequence[str]]] = None
    #: Whose slices stay open beside root's: the admin, who runs what looks at GPUs.
    exempt: Sequence[str] = ()


def read(path: str = SETTINGS) -> Settings:
    """The settings of a node; without them GPUs are everybody's. Raises NodeError, OSError."""
    data = read_bytes(path)
    return Settings("open") if data is None else load(data, path)


def load(data: bytes, path: str = SETTINGS) -> Settings:
    """Parse the settings of a node. Raises NodeError."""
    try:
        given = json.loads(data)
    except ValueError as error:
        raise NodeError(f"{path} is damaged: {error}") from None
    found = parse(Settings, given, path)
    if found.access not in ("open", "granted"):
        raise NodeError(f"{path}: access {found.access!r} is neither open nor granted")
    if found.access == "granted" and not all(found.groups):  # an empty one would deny every device
        raise NodeError(f"{path}: a group of devices has no name")
    return found


def all_but(beginnings: Iterable[str], done: str = "") -> list[str]:
    """Patterns of glob(7) that match every name but those that begin like one of ``beginnings``, and no other."""
    further = {one[len(done) :] for one in beginnings if one.startswith(done)}
    if "" in further:
        return []
    following = sorted({one[0] for one in further})
    if not following:
        return [f"{done}*"]
    # a hyphen in the middle would be a range
    inside = "".join(one for one in following if one != "-") + ("-" if "-" in following else "")
    found = [f"{done}[!{inside}]*", *([done] if done else [])]
    for letter in following:
        found += all_but(beginnings, done + letter)
    return found


def allowed(settings: Settings, devices: Iterable[str] = ()) -> list[str]:
    """The whole list for somebody who was granted these device files: each as DeviceAllow= has it."""
    groups = [f"char-{one} rwm" for one in all_but(tuple(settings.groups))]
    return ["block-* rwm", *groups, *(f"{path} rw" for path in (*settings.control, *sorted(set(devices))))]


def family(unit: str) -> str:
    """Under which of these names a unit has its drop-in: an instance has that of its template."""
    if "@" in unit:
        return re.sub("@.*", "@.service", unit)
    return JOB_UNITS if unit.startswith("cron-") else unit


def drop_ins(settings: Settings) -> dict[str, str]:
    """Path below UNITS → text, for all units that act for people, where nobody was granted anything.

    None has an empty line ``DeviceAllow=``, which would take away what a grant's drop-in has allowed.
    """
    lines = "".join(f"DeviceAllow={one}\n" for one in allowed(settings))
    head = "# Managed by gpuadmin. GPUs are opened for those who were granted one."
    kinds = {path: "Slice" if unit.endswith(".slice") else "Service" for unit, path in PATHS.items()}
    return {path: f"{head}\n[{kind}]\nDevicePolicy=closed\n{lines}" for path, kind in kinds.items()}


def properties(allow: Sequence[str] | None) -> list[str]:
    """What `systemctl set-property` is told. An empty list or None: open to everything.

    Not by DevicePolicy=auto and no list: systemd 257 then leaves the old list in force in what runs.
    """
    return ["DevicePolicy=closed", "DeviceAllow=", *(f"DeviceAllow={one}" for one in allow or EVERYTHING)]

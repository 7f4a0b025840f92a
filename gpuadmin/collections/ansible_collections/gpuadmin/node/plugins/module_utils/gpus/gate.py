"""The gate: which device files everything that acts for people may open; what systemd is told of that, at once and of
whoever comes next; and whether the gate is closed, as it was last tried.

systemd has no list of what is denied. What is allowed is a device group (a name of /proc/devices) that does not begin
like one of the GPUs', what every CUDA program needs beside its GPU, and the GPUs that are granted. A group that is
loaded later is denied until the list is applied again, which is the safe side.

It is kept until the next boot: what was tried before one says nothing after it.
"""

from __future__ import annotations

import glob
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ..cgroups import BASES, JOB_SERVICES, JOB_UNITS, SSH_SERVICES
from ..documents import parse
from ..errors import NodeError, in_words
from ..files import read_bytes, write_atomic
from ..lookup import Lookup, system_lookup
from ..paths import RUN, STATE
from ..run import Finished, Runner, run_command
from ..unit_status import Outcome

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


TOLD = 30.0  # seconds for systemd's answer
CONTROL = "/run/systemd/system.control"  # where set-property --runtime writes
#: Beside the drop-ins: systemd has read them since they were written. Not a note of `followed`: the first drop-ins are
#: written by the operation gpu_gate, and count as unread where it was cut off, too.
KNOWN = ".gpuadmin-gate"


def _command(command: Sequence[str]) -> Finished:
    return run_command(command, seconds=TOLD)


@dataclass(frozen=True)
class Places:
    """Where everything is. Tests put it elsewhere."""

    state: str = STATE
    run: str = RUN
    settings: str = SETTINGS
    control: str = CONTROL
    kept: str = "/etc/systemd/system.control"  # where set-property without it does
    units: str = UNITS
    root: str = "/"
    proc: str = "/proc"
    command: Runner = _command
    cgroups: Sequence[str] = BASES
    lookup: Lookup = system_lookup


def keep_out(places: Places, settings: Settings) -> list[str]:
    """Have systemd close the gate to whoever comes, and return the drop-ins that were not as they should be.

    Raises NodeError, OSError.
    """
    wanted = {} if settings.access == "open" else drop_ins(settings)
    wrong, known = {}, os.path.join(places.units, KNOWN)
    for name, text in wanted.items():
        path = os.path.join(places.units, name)
        if read_bytes(path) != text.encode():
            wrong[path] = text
    # guard: drop-ins that systemd has not read are read the next time -> bool(wrong)
    unread = bool(wrong) or (bool(wanted) and not os.path.exists(known))
    if wrong and os.path.exists(known):
        os.unlink(known)
    for path, text in wrong.items():
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_atomic(path, text.encode(), mode=0o644, sync=False)
    if unread:
        done = places.command(("systemctl", "daemon-reload"))
        if done.returncode != 0:  # guard: drop-ins that systemd does not read are told
            raise NodeError(f"systemd does not read its drop-ins: {done.stderr.strip()}")
        write_atomic(known, b"", mode=0o600, sync=False)
    return list(wrong)


def has_drop_in(places: Places, unit: str) -> bool:
    """Whether systemd has what it was told; a `systemctl revert` has taken it away."""
    return os.path.exists(os.path.join(places.control, f"{unit}.d", "50-DeviceAllow.conf"))


def set_property(places: Places, unit: str, settings: Sequence[str]) -> str | None:
    """Tell systemd of a unit until the next boot. Returns why it did not take it, or None."""
    try:
        done = places.command(("systemctl", "set-property", "--runtime", unit, *settings))
    except (NodeError, OSError) as error:  # guard: a unit that cannot be told keeps no other from being told
        return in_words(error)
    return done.stderr.strip() if done.returncode != 0 else None


def apply(places: Places, unit: str, allow: Sequence[str] | None, outcome: Outcome) -> bool:
    """Tell systemd, and return whether it took it. Opened again, nothing stays behind that hides what comes later."""
    why = set_property(places, unit, properties(allow))
    if why is not None:  # guard: what systemd refuses is told
        outcome.problems.append(f"{unit}: its list of devices could not be set: {why}")
        return False
    if allow is None:
        forget(places, unit)
    outcome.done.append(f"{unit}: {_words(allow)}")
    return True


def forget(places: Places, unit: str) -> None:
    for path in set_by_property(places.control, unit, "Device*"):
        os.unlink(path)


def set_by_property(directory: str, unit: str, name: str) -> list[str]:
    """The files that `systemctl set-property` has left for a property, or for those that a pattern names."""
    return glob.glob(os.path.join(glob.escape(directory), f"{glob.escape(unit)}.d", f"50-{name}.conf"))


def _words(allow: Sequence[str] | None) -> str:
    if not allow:
        return "open"
    return f"closed but for {', '.join(one.partition(' ')[0] for one in allow if one.startswith('/dev/')) or 'nothing'}"


RECORD = "gpu-gate-tried.json"
UNIT = "gpuadmin-gpu-gate.service"
LATE = 300.0  # seconds; the timer starts the unit every minute


def _clock() -> float:
    """Seconds since boot: nobody puts this clock back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_trial(problems: Sequence[str], run: str = RUN) -> None:
    """Keep what a trial has found."""
    found = {"seconds": _clock(), "problems": list(problems)}
    write_atomic(os.path.join(run, RECORD), json.dumps(found, indent=1).encode() + b"\n", mode=0o644, sync=False)


def problems(root: str = "/", now: float | None = None) -> list[str] | None:
    """Why GPUs may be open to people who were not granted one; None where they are open to everybody by intent."""
    try:
        if read(os.path.join(root, SETTINGS.lstrip("/"))).access == "open":
            return None
        kept = read_bytes(os.path.join(root, RUN.lstrip("/"), RECORD))
        if kept is None:  # guard: a gate that nobody tried is not called closed
            return [f"whether the GPUs' gate is closed was not tried since the boot: systemctl status {UNIT}"]
        found = json.loads(kept)
        age = (_clock() if now is None else now) - float(found["seconds"])
        late = [f"the GPUs' gate was last tried {age / 60:.0f} minutes ago: systemctl status {UNIT}"]
        return [
            *(late if age > LATE else []),  # guard: a gate that was closed once is not called closed for ever
            *map(str, found["problems"]),
        ]
    except (NodeError, OSError) as error:
        return [f"whether the GPUs' gate is closed is not known: {in_words(error)}"]
    except (ValueError, LookupError, TypeError):
        return [f"whether the GPUs' gate is closed is not known: {RECORD} is damaged"]

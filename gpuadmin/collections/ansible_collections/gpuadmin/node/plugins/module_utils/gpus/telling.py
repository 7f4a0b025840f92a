"""What systemd is told of the devices of a unit: at once, by set-property, and of whoever comes next, by drop-ins."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ..cgroups import BASES
from ..errors import NodeError, in_words
from ..files import read_bytes, write_atomic
from ..lookup import Lookup, system_lookup
from ..paths import RUN, STATE
from ..run import Finished, Runner, run_command
from ..unit_status import Outcome
from . import gate
from .gate import Settings

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
    settings: str = gate.SETTINGS
    control: str = CONTROL
    kept: str = "/etc/systemd/system.control"  # where set-property without it does
    units: str = gate.UNITS
    root: str = "/"
    proc: str = "/proc"
    command: Runner = _command
    cgroups: Sequence[str] = BASES
    lookup: Lookup = system_lookup


def keep_out(places: Places, settings: Settings) -> list[str]:
    """Have systemd close the gate to whoever comes, and return the drop-ins that were not as they should be.

    Raises NodeError, OSError.
    """
    wanted = {} if settings.access == "open" else gate.drop_ins(settings)
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


def drop_in_there(places: Places, unit: str) -> bool:
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
    why = set_property(places, unit, gate.properties(allow))
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

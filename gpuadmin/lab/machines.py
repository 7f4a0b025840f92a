"""What a lab's hosts run as: virtual machines (qemu.py), or light hosts (light/). The same few verbs for both."""

from __future__ import annotations

from types import ModuleType

from gpuadmin.lab import qemu
from gpuadmin.lab.accel import Accel
from gpuadmin.lab.light import machine as light
from gpuadmin.lab.state import Host, Lab


def _find_module(lab: Lab) -> ModuleType:
    return light if lab.light else qemu


def start(lab: Lab, host: Host, chosen: Accel | None) -> None:
    """Start a host that is not running; ``chosen``: what virtual machines run with, None for light hosts."""
    if chosen is None:
        light.start(lab, host)
    else:
        qemu.start(lab, host, chosen)


def running_pid(lab: Lab, host: Host) -> int | None:
    """Return the process id of what a host runs as; None if it is off."""
    pid: int | None = _find_module(lab).running_pid(lab, host)
    return pid


def kill(lab: Lab, host: Host) -> bool:
    """End a host at once. Returns False if it was off."""
    killed: bool = _find_module(lab).kill(lab, host)
    return killed


def power_off(lab: Lab, host: Host) -> None:
    """Ask a running host to shut down."""
    _find_module(lab).power_off(lab, host)


def last_output(lab: Lab, host: Host) -> str:
    """Return the end of a host's console."""
    output: str = _find_module(lab).last_output(lab, host)
    return output

"""All sections, each in a process of its own with a deadline: only a section that hangs is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..bounded import look_gently, short
from ..each import Failed
from . import clock, files, firewall, firmware, kernel, mounting, packages, ssh, units
from .place import SECONDS, Place, Settings, bounded

Section = Callable[[Place], Settings]
#: Their names are gpuadmin/common/sections.py's.
SECTIONS: Mapping[str, Section] = {
    "ssh": ssh.sshd,
    "kernel": kernel.kernel,
    "driver": kernel.driver,
    "sysctl": kernel.sysctl,
    "limits": files.limits,
    "packages": packages.packages,
    "repositories": files.repositories,
    "mounts": mounting.mounts,
    "dns": files.dns,
    "time": clock.clock,
    "pam": files.pam,
    "nss": files.nss,
    "units": units.units,
    "timers": units.timers,
    "cron": files.cron,
    "sudo": files.sudoers,
    "firewall": firewall.firewall,
    "firmware": firmware.firmware,
}


def collect(
    place: Place, *, only: frozenset[str] = frozenset(), seconds: float = SECONDS,
    chosen: Mapping[str, Section] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """``sections``: section → its settings. ``unknown``: section → why it was not read. ``only``: these, if any."""
    parts = {name: partial(_bounded, part) for name, part in (chosen or SECTIONS).items() if not only or name in only}
    outcome: dict[str, Any] = dict(look_gently(parts, place, seconds, at_once=len(parts)))
    failed = {name: short(one.why) for name, one in outcome.items() if isinstance(one, Failed)}
    return {"sections": {name: outcome[name] for name in parts if name not in failed}, "unknown": failed}


def _bounded(part: Section, place: Place) -> Settings:
    return bounded(part(place))

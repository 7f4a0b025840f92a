"""Time: the zone, what keeps the clock in step, with which servers, and how far off it is."""

from __future__ import annotations

import os

from ..errors import NodeError
from .place import Place, Settings, files

_FILES = (
    "/etc/systemd/timesyncd.conf", "/etc/systemd/timesyncd.conf.d", "/etc/chrony.conf", "/etc/chrony/chrony.conf",
    "/etc/chrony/conf.d", "/etc/chrony/sources.d", "/etc/ntp.conf", "/etc/ntpsec/ntp.conf",
)  # fmt: skip
_SERVICES = ("systemd-timesyncd", "chrony", "chronyd", "ntp", "ntpd", "ntpsec", "openntpd")
_SERVERS = ("server", "pool", "peer", "ntp", "fallbackntp")
#: Seconds: a clock that is further off shows.
_IN_STEP = 0.1


def clock(place: Place) -> Settings:
    """`zone`, `service`, `servers`, `in step`, `off by` (chrony alone says it)."""
    found: Settings = {}
    told = dict(
        line.partition("=")[::2] for line in (place.output("timedatectl", "show", failing=True) or "").splitlines()
    )
    found["zone"] = told.get("Timezone") or _zone(place)
    for name, words in (("NTPSynchronized", "in step"), ("LocalRTC", "hardware clock in local time")):
        if name in told:
            found[words] = told[name]
    states = (place.output("systemctl", "is-active", *_SERVICES, failing=True) or "").split()
    if len(states) != len(_SERVICES):
        raise NodeError("systemd does not say what keeps the clock in step")
    active = [name for name, state in zip(_SERVICES, states) if state == "active"]
    found["service"] = ", ".join(active) or "none"
    servers = []
    for _, lines in files(place, _FILES):
        for line in lines:
            first, *rest = line.replace("=", " ").split()
            if rest and first.lower() in _SERVERS:
                servers.append(" ".join([first.lower(), *rest]))
    found["servers"] = "\n".join(servers)
    tracking = (place.output("chronyc", "-n", "-c", "tracking", failing=True) or "").split(",")
    if len(tracking) > 4:
        found["off by"] = _off(tracking[4])
    return found


def _off(seconds: str) -> str:
    """The offset of chronyc's tracking (chronyc(1)): that of each host is another, and only a large one matters."""
    try:
        number = abs(float(seconds))
    except ValueError:
        return "unknown"
    return f"less than {_IN_STEP:g} s" if number < _IN_STEP else f"{number:.1f} s"


def _zone(place: Place) -> str:
    try:
        return os.readlink(place.path("/etc/localtime")).partition("zoneinfo/")[2] or "unknown"
    except OSError:
        return "unknown"

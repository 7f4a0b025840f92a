"""What says of an account that it is a service's: a unit runs as it, or nobody has logged in with it for long."""

from __future__ import annotations

import os
import struct
import time

from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.run import look

from gpuadmin.common.records.adoption import Used

from . import bounds
from .homes import people

LASTLOG = "/var/log/lastlog"
#: lastlog(8): a record for each uid, its time first, then the terminal and the host.
_RECORD = struct.Struct("i32s256s")
DAY = 86400
RECENT = 31  # days: where nobody has logged in for longer than that, the file is one that nothing writes any more
_UNITS = ("systemctl", "--no-pager", "--type=service", "--all", "--property=Id,User", "show", "*")


def used(place: Place, text: str | None = None, now: float | None = None) -> Used:
    """Of people, a unit that runs as them, and the days since their last login. ``text``: of systemctl, for tests."""
    whose = {one.name: one.uid for one in people(place)[: bounds.MOST] if one.uid is not None}
    if text is None:
        text = look(_UNITS).stdout if os.path.isdir("/run/systemd/system") else ""
    owned = {name: unit for name, unit in units(text).items() if name in whose}
    return Used(owned, idle(place.path(LASTLOG), whose, time.time() if now is None else now))


def units(text: str) -> dict[str, str]:
    """Account → a unit of its own: not of a template, by which systemd and admins run things for people."""
    found: dict[str, str] = {}
    for block in text.split("\n\n"):
        facts = dict(line.partition("=")[::2] for line in block.splitlines())
        if facts.get("User") and "@" not in facts.get("Id", "@"):
            found.setdefault(facts["User"], bounds.name(facts["Id"]))
    return found


def idle(path: str, whose: dict[str, int], now: float) -> dict[str, int] | None:
    """Given people's uids, return for each who has ever logged in how many days ago that was."""
    found = {}
    try:
        with open(path, "rb") as stream:
            for name, uid in whose.items():
                stream.seek(uid * _RECORD.size)
                data = stream.read(_RECORD.size)
                when = _RECORD.unpack(data)[0] if len(data) == _RECORD.size else 0
                if 0 < when <= now:
                    found[name] = int(now - when) // DAY
    except OSError:
        return None
    return found if min(found.values(), default=RECENT + 1) <= RECENT else None

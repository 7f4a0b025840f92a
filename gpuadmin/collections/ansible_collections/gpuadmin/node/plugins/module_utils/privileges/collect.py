"""All parts of the look, each in a process of its own with a deadline: only a part that hangs is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuadmin.common.records.audits import Privilege, Privileges

from ..bounded import look_gently, short
from ..each import Failed
from . import accounts, modes, packages, setuid, sshd, sudo
from .place import DIFFERS, LONGEST, MOST, ROOT, Found, Place

SECONDS = 9.0  # the whole look: people wait for it, and disks work for it

Part = Callable[[Place], object]
#: Each gives findings; or findings and what was not looked at; `sshd` and `keys` what hosts are compared by, too.
PARTS: Mapping[str, Part] = {
    "accounts": accounts.accounts,
    "groups": accounts.groups,
    "groups of a directory": accounts.directory,
    "sudo": sudo.sudo,
    "sudo's own check": sudo.sudo_accepts,
    "doas and polkit": sudo.others,
    "keys": sshd.keys,
    "setuid files": setuid.programs,
    "owners": setuid.foreign,
    "programs": setuid.closed,
    "modes": modes.modes,
    "root": modes.writable_root,
    "packaged files": packages.differing,
    "sshd": sshd.effective,
}


def collect(place: Place, *, seconds: float = SECONDS, chosen: Mapping[str, Part] | None = None) -> Privileges:
    """Return the findings, first those that make somebody root."""
    parts = PARTS if chosen is None else chosen
    answer = Privileges([], {}, {}, [], {})
    outcome: dict[str, Any] = dict(look_gently(parts, place, seconds, at_once=len(parts)))
    for name in parts:
        result = outcome[name]
        if isinstance(result, Failed):
            answer.unknown[name] = short(result.why)
        elif name == "sshd":
            answer.sshd.update(result)
        else:
            found, more = result if isinstance(result, tuple) else (result, [])
            if name == "keys":
                answer.keys.update(more)
            else:
                answer.aside.extend(more)
            # owners walks what modes names one by one
            known = {(one.key, one.rank) for one in answer.found} if name == "modes" else set()
            answer.found.extend(one for one in _bounded(name, found) if (one.key, one.rank) not in known)
    answer.found.sort(key=lambda one: one.rank != ROOT)
    return answer


def _bounded(part: str, found: list[Found]) -> list[Privilege]:
    """The findings of a part as they are reported, as many as somebody reads; the rest is counted."""
    first = sorted(found, key=lambda one: one.rank != ROOT)
    if len(first) > MOST:  # guard: what a host says of who is root has its bounds
        more = Found(part, f"and {len(first) - MOST} more", ROOT if first[MOST].rank == ROOT else DIFFERS)
        first = [*first[:MOST], more]
    return [Privilege(short(one.key, LONGEST), short(one.words, LONGEST), one.rank) for one in first]

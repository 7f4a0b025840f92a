"""All parts of the look, each in a process of its own with a deadline: only a part that hangs is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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


def collect(place: Place, *, seconds: float = SECONDS, chosen: Mapping[str, Part] | None = None) -> dict[str, Any]:
    """``found``: findings, first those that make somebody root. ``sshd``: its settings in effect. ``keys``: of the
    admin's account, by fingerprint. ``aside``: what was not looked at. ``unknown``: part → why there is no answer.
    """
    parts = PARTS if chosen is None else chosen
    answer: dict[str, Any] = {"found": [], "sshd": {}, "keys": {}, "aside": [], "unknown": {}}
    outcome: dict[str, Any] = dict(look_gently(parts, place, seconds, at_once=len(parts)))
    for name in parts:
        result = outcome[name]
        if isinstance(result, Failed):
            answer["unknown"][name] = short(result.why)
        elif name == "sshd":
            answer["sshd"] = result
        else:
            found, more = result if isinstance(result, tuple) else (result, [])
            answer["keys" if name == "keys" else "aside"] = more if name == "keys" else [*answer["aside"], *more]
            # owners walks what modes names one by one
            known = {(one["key"], one["rank"]) for one in answer["found"]} if name == "modes" else set()
            answer["found"] += [one for one in _bounded(name, found) if (one["key"], one["rank"]) not in known]
    answer["found"].sort(key=lambda one: one["rank"] != ROOT)
    return answer


def _bounded(part: str, found: list[Found]) -> list[dict[str, str]]:
    """The findings of a part as they are reported, as many as somebody reads; the rest is counted."""
    first = sorted(found, key=lambda one: one.rank != ROOT)
    if len(first) > MOST:  # guard: what a host says of who is root has its bounds
        more = Found(part, f"and {len(first) - MOST} more", ROOT if first[MOST].rank == ROOT else DIFFERS)
        first = [*first[:MOST], more]
    return [{**one.document(), "key": short(one.key, LONGEST), "words": short(one.words, LONGEST)} for one in first]

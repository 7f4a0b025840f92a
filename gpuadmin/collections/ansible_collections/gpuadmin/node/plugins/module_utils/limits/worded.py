"""Limits as gpuadmin.yml has them: what systemd is told, in the words that an admin has written. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpuadmin.common.amounts import UNLIMITED
from gpuadmin.common.text import counted

from .bounds import ALL, OWN, TOGETHER, as_kernel

_FIELDS = {
    "MemoryMax": "memory", "MemorySwapMax": "swap", "TasksMax": "tasks", "CPUQuota": "processors",
    "CPUQuotaPerSecUSec": "processors", "CPUWeight": "processor_weight",
}  # fmt: skip
_EVERYBODY = f"user-.slice.d/{ALL}"
_PERSON = re.compile(rf"user-([0-9]{{1,10}})\.slice\.d/{re.escape(OWN)}")


def value(name: str, text: str) -> str:
    """What systemd is told of a property, or shows of it, as gpuadmin.yml would say it."""
    if name == "CPUWeight":
        return "100" if text in ("", "[not set]") else text
    if text in ("", "infinity"):
        return UNLIMITED
    if name.startswith("Memory") and text.isdecimal():
        return _size(int(text))
    if name == "CPUQuota" and text.rstrip("%").isdecimal():
        return f"{int(text.rstrip('%')) / 100:g}"
    # of a period of 100 ms
    return f"{int(as_kernel(name, text)) / 100_000:g}" if name == "CPUQuotaPerSecUSec" else text


def listed(values: Mapping[str, str]) -> str:
    """Properties with their values: `memory 40G, tasks 4096`."""
    return ", ".join(f"{_FIELDS.get(name, name)} {value(name, text)}" for name, text in values.items())


def changes(before: Mapping[str, str], after: Mapping[str, str], owner: Callable[[int], str]) -> list[str]:
    """Drop-ins by path, as they were and as they will be: what that changes, a line each. ``owner``: of a uid.

    What a service has follows from everybody's, so that all services are one line.
    """
    done, services = [], 0
    for path in sorted(before.keys() | after.keys(), key=lambda one: (one != _EVERYBODY, one)):
        old, new, person = before.get(path), after.get(path), _PERSON.fullmatch(path)
        if old == new:
            continue
        if person:  # who has none of their own has everybody's
            old, new = old or before.get(_EVERYBODY), new or after.get(_EVERYBODY)
        found = _differences(old or "", new or "")
        if path == _EVERYBODY:
            done += [f"limits.{one}" for one in found] or ["limits: what systemd reads is written again"]
        elif person or path.startswith(f"{TOGETHER}.d/"):
            who = owner(int(person[1])) if person else "all people together"
            done.append(f"limits of {who}: {', '.join(found) or 'the same, written again'}")
        else:
            services += 1
    if services:
        done.append(f"limits of jobs and sessions in {counted(services, 'service')}: as for one person")
    return done


def _differences(old: str, new: str) -> list[str]:
    was, will = (dict(re.findall(r"(?m)^(\w+)=(.*)$", text)) for text in (old, new))
    pairs = {
        _FIELDS[name]: (value(name, was.get(name, "")), value(name, will.get(name, "")))
        for name in {**was, **will}
        if name in _FIELDS
    }
    return [f"{name}: {one} -> {other}" for name, (one, other) in pairs.items() if one != other]


def _size(count: int) -> str:
    """Bytes in the units of gpuadmin.yml: 1G is 2^30."""
    for letter, unit in (("T", 1 << 40), ("G", 1 << 30)):
        if count >= unit:
            return f"{count / unit:.1f}".removesuffix(".0") + letter
    return f"{count / (1 << 20):.0f}M" if count else "0"

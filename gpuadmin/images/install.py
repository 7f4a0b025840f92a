"""Decisions about installing a node: which image, which disk, and what is lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.common.text import size_words
from gpuadmin.errors import ConfigError


def describe_disk(disk: Mapping[str, Any]) -> list[str]:
    """What a disk is, and what is on it: lines for people."""
    first = f"{(disk['names'] or ['no name'])[0]}: {size_words(disk['size'])}, {disk['model'] or 'model unknown'}"
    why = [f"  cannot be taken: {disk['busy']}"] if disk["busy"] else []
    return [first, *(f"  {part}" for part in disk["parts"] or ["nothing is on it"]), *why]


def describe_disks(machine: Mapping[str, Any]) -> list[str]:
    """All disks of a machine: indented lines for people."""
    return [f"  {line}" for disk in machine["disks"] for line in describe_disk(disk)]


def choose_disk(machine: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Given what a machine says, return the disk of a name. Raises ConfigError, with all disks, where there is none."""
    for disk in machine["disks"]:
        if name in disk["names"]:
            return dict(disk)
    what = f"this machine has no disk {name}" if name else "no disk is named"
    lines = "\n".join((f"{what}; what it has:", *describe_disks(machine)))
    raise ConfigError(lines, hint="--disk NAME, as it stands before the colon")


def choose_image(complete: Mapping[str, Mapping[str, Any]], wanted: str | None) -> str:
    """Given the store's complete images, return the one that is wanted, or the first, if it has a full stream."""
    whole = [name for name, one in complete.items() if any(stream["parent"] is None for stream in one["streams"])]
    found = wanted or next(iter(whole), None)
    if found not in whole:
        hint = f"gpuadmin build-image NAME --full makes one; with one: {', '.join(whole) or 'none'}"
        raise ConfigError(f"the store has no full stream of {wanted or 'any image'}", hint=hint)
    return str(found)

"""Decisions about installing a node: is this the machine, is this the disk, and what is lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.common.text import size_words
from gpuadmin.errors import ConfigError, RefusedError


def describe_disks(machine: Mapping[str, Any]) -> str:
    """Each disk of a machine that can be named, with what is on it: lines for people."""
    lines = []
    for disk in machine["disks"]:
        if disk["names"]:
            lines.append(f"{disk['names'][0]}: {size_words(disk['size'])}, {disk['model'] or 'model unknown'}")
            lines += [f"  {part}" for part in disk["parts"] or ["nothing is on it"]]
            lines += [f"  cannot be taken: {disk['busy']}"] if disk["busy"] else []
    return "\n  ".join(lines) or "none that has a name in /dev/disk/by-id"


def choose_disk(machine: Mapping[str, Any], mac: str, name: str | None) -> Mapping[str, Any]:
    """Given what a machine says, the MAC address and the disk that were typed, return the disk. Raises RefusedError for
    another machine and a disk that may not be taken, ConfigError with all disks where none was named.
    """
    if mac not in machine["macs"]:  # guard: a machine with another MAC address is not installed
        raise RefusedError(
            f"another machine answers: it has {', '.join(machine['macs']) or 'no network card'}, not {mac}",
            hint="is it the right machine, the right --address, the right card?",
        )
    disk = next((one for one in machine["disks"] if name in one["names"]), None)
    if disk is None:
        what = "no disk is named" if name is None else f"this machine has no disk {name}"
        hint = "--disk NAME, as it stands before the colon"
        raise ConfigError(f"{what}; what there is:\n  {describe_disks(machine)}", hint=hint)
    if disk["busy"]:  # guard: a disk in use is refused before anybody is asked
        raise RefusedError(f"{name} is not touched: {disk['busy']}", hint="free it, or name another disk")
    found: Mapping[str, Any] = disk
    return found


def choose_image(complete: Mapping[str, Mapping[str, Any]], wanted: str | None) -> str:
    """Given the store's complete images, newest first, return the one that a stick is made of, which has a full stream:
    the one that is wanted, or the first. Raises ConfigError.
    """
    whole = [name for name, one in complete.items() if any(stream["parent"] is None for stream in one["streams"])]
    found = wanted or next(iter(whole), None)
    if found not in whole:
        hint = f"gpuadmin build-image NAME --full makes one; with one: {', '.join(whole) or 'none'}"
        raise ConfigError(f"the store has no full stream of {wanted or 'any image'}", hint=hint)
    return str(found)

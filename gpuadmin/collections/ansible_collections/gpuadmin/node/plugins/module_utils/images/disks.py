"""A machine's disks: what is on them, and which of them may be taken. Looks, writes nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

from gpuadmin.common.records.installs import DISK_NAME, MOST_NAMES, MOST_PARTS, Disk
from gpuadmin.common.text import size_words

from ..errors import NodeError, in_words
from ..run import LOOKING, run

_LSBLK = ("lsblk", "--json", "--bytes", "--output", "NAME,PATH,TYPE,SIZE,MODEL,FSTYPE,LABEL,PARTLABEL,MOUNTPOINT")


def look(
    ask: Callable[[], str] = lambda: run(_LSBLK, seconds=LOOKING), by_id: str = "/dev/disk/by-id"
) -> dict[str, Disk]:
    """Every whole disk: its device → what it is."""
    names: dict[str, list[str]] = {}
    for name in sorted(os.listdir(by_id)) if os.path.isdir(by_id) else ():
        # guard: a disk whose maker gave it an odd name hides no other from the admin
        if re.fullmatch(DISK_NAME, name):
            names.setdefault(os.path.realpath(os.path.join(by_id, name)), []).append(name)
    found = {}
    for one in json.loads(ask())["blockdevices"]:
        memory = one["path"].startswith("/dev/zram")
        if one["type"] == "disk" and int(one["size"] or 0) and not memory:
            parts = [_describe(part) for part in _below(one)]
            whole = [] if parts or not (one.get("fstype") or _holds_something(one["path"])) else [_describe(one)]
            if len(parts) > MOST_PARTS:
                parts = [*parts[: MOST_PARTS - 1], f"and {len(parts) - MOST_PARTS + 1} more"]
            model, known = str(one.get("model") or "").strip()[:100], names.get(one["path"], [])[:MOST_NAMES]
            found[one["path"]] = Disk(known, int(one["size"]), model, whole + parts, _busy(one))
    return found


def _below(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in one.get("children") or ():
        yield part
        yield from _below(part)


def _describe(part: Mapping[str, Any]) -> str:
    """Given what lsblk says of a partition, or of what uses it, return it as people know it again."""
    labels = dict.fromkeys(repr(part[key]) for key in ("label", "partlabel") if part.get(key))
    words = [part.get("fstype") or "no file system that is known", *labels, size_words(int(part["size"] or 0))]
    mounted = _last_mount(str(part["path"])) if str(part.get("fstype")).startswith("ext") else ""
    return f"{part['name']}: {', '.join([*words, *([f'last mounted on {mounted!r}'] if mounted else [])])}"[:400]


def _holds_something(device: str) -> bool:
    """Whether a disk begins with something: what nobody knows, such as encrypted data, is not nothing."""
    try:
        with open(device, "rb") as stream:
            return any(stream.read(1 << 20))
    except OSError:
        return True


def _last_mount(device: str) -> str:
    """Where an ext file system was mounted last: s_last_mounted of its superblock (ext4's layout, offset 0x88)."""
    try:
        with open(device, "rb") as stream:
            stream.seek(1024 + 0x88)
            return stream.read(64).split(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        return ""


def _busy(disk: Mapping[str, Any]) -> str:
    """Why a disk cannot be taken: what is mounted from it, or made of it (LVM, RAID, encryption)."""
    for one in (disk, *_below(disk)):
        if one.get("mountpoint"):  # guard: a disk of which something is mounted is not taken
            return f"{one['name']} is in use ({one['mountpoint']})"
        if one["type"] not in ("disk", "part"):  # guard: a disk of which LVM or RAID is made is not taken
            return f"{one['name']} ({one['type']}) is made of it: stop it first (vgchange -an, mdadm --stop)"
    return ""


def choose(
    name: str, need: int, disks: Mapping[str, Disk] | None = None, shown: Sequence[str] | None = None
) -> str:  # fmt: skip
    """Given a disk's name, the bytes that are needed, and what people saw on it (None: nothing yet), return its device.
    Raises NodeError if it may not be taken."""
    disks = look() if disks is None else disks
    device, disk = next(((path, disk) for path, disk in disks.items() if name in disk.names), ("", None))
    if disk is None:  # guard: only a whole disk that was named is taken
        raise NodeError(f"this machine has no disk {name}")
    if disk.busy:
        raise NodeError(f"{name} is not touched: {disk.busy}")
    if disk.size < need:  # guard: a disk that is too small keeps what is on it
        raise NodeError(f"{name} has {size_words(disk.size)}, and {size_words(need)} are needed; it is not touched")
    if shown is not None and [*shown] != [*disk.parts]:  # guard: a disk keeps what nobody has seen on it
        raise NodeError(f"{name} has something else on it by now ({'; '.join(disk.parts) or 'nothing'}); run it again")
    try:
        # guard: a disk that the kernel has in use is not taken
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        raise NodeError(f"{name} is not touched: {in_words(error)}") from error
    return device

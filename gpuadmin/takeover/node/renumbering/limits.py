"""Limits of btrfs, which refuse root as well: lifted while inodes change hands, and put back as they were."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import read_file_system_uuid
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    read_bytes,
    sync_directory,
    sync_filesystem,
    unlink_if_present,
    write_atomic,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.qgroups import SYSFS, desk
from ansible_collections.gpuadmin.node.plugins.module_utils.run import run

RECORD = "limits.json"
#: Option of `btrfs qgroup limit`, and the file of the kernel's that has it (bit of limit_flags: linux/btrfs.h).
KINDS = {"-c": ("max_referenced", 1), "-e": ("max_exclusive", 2)}


def read(uuid: str) -> list[list[str]]:
    """What is limited in a file system: group, kind of limit, bytes."""
    found = []
    for group, facts in _groups(uuid).items():
        flags = int(_text(facts, "limit_flags"))
        found += [[group, kind, _text(facts, file)] for kind, (file, bit) in KINDS.items() if flags & bit]
    return found


def _groups(uuid: str) -> dict[str, str]:
    """Group → the directory of what the kernel says of it."""
    top = f"{SYSFS}/{uuid}/qgroups"
    names = sorted(os.listdir(top)) if os.path.isdir(top) else ()
    return {name.replace("_", "/"): f"{top}/{name}" for name in names if os.path.isdir(f"{top}/{name}")}


def _text(directory: str, name: str) -> str:
    return (read_bytes(os.path.join(directory, name)) or b"0").decode("ascii").strip()


@contextmanager
def lifted(handles: Sequence[int], directory: str) -> Iterator[None]:
    """As long as the block lasts nothing is limited in the file systems that are open. ``directory``: of the journal.

    A record says what was: after a cut the next boot puts that back, and not what it finds. Raises NodeError.
    """
    record = os.path.join(directory, RECORD)
    trees = {uuid: f"/proc/{os.getpid()}/fd/{handle}" for handle in handles if (uuid := read_file_system_uuid(handle))}
    known: dict[str, list[list[str]]] = json.loads(read_bytes(record) or b"{}")
    for uuid in trees:
        groups = _groups(uuid)
        # guard: a limit whose group has gone since a cut is in nobody's way
        known[uuid] = [one for one in known.get(uuid, read(uuid)) if one[0] in groups]
    if any(known.values()):
        write_atomic(record, json.dumps(known).encode(), mode=0o600)  # guard: what was limited is known after a cut
    try:
        for uuid, place in trees.items():
            for group, kind, _ in known[uuid]:
                _limit(group, kind, "none", place)
        yield
    finally:
        problems = []
        for uuid, place in trees.items():
            for group, kind, most in known[uuid]:
                try:
                    _limit(group, kind, most, place)  # guard: what was limited is limited again
                except NodeError as error:
                    problems.append(str(error))
        if problems:  # the record stays: the next boot puts back what it says
            raise NodeError("limits of btrfs are not back yet: " + "; ".join(problems[:3]))
        for uuid, place in trees.items():
            if known[uuid]:
                sync_filesystem(place)  # guard: limits are on the disk before it is forgotten what they were
        unlink_if_present(record)
        sync_directory(directory)


def _limit(group: str, kind: str, most: str, place: str) -> None:
    options = ("-e",) if kind == "-e" else ()
    run(("btrfs", "qgroup", "limit", *options, most, group, desk(place)))

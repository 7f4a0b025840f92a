"""One inode that is open: what it is to be given, what it would lose by that, and giving it back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import ACLS
from ansible_collections.gpuadmin.node.plugins.module_utils.inode_flags import (
    STOPS,
    opened,
    read_inode_flags,
    set_flags,
)

from . import attributes
from .ids import Mapping
from .special import Known, Special, find
from .task import Tally, Task


@dataclass
class Opened:
    """One inode that is open, and what is to be done with it. ``mode`` -1 and ``capability`` None: nothing."""

    handle: int
    path: str
    facts: os.stat_result
    uid: int
    gid: int
    acls: dict[str, bytes]
    mode: int = -1
    capability: bytes | None = None
    flags: int = 0
    chown: bool = False
    ids: set[tuple[str, int]] = field(default_factory=set)  # kind, and the first id of each move that it is part of

    @property
    def proc(self) -> str:
        return f"/proc/self/fd/{self.handle}"

    @property
    def special(self) -> bool:
        return self.mode >= 0 or self.capability is not None or self.flags != 0


def decide(
    handle: int, path: str, names: Callable[[str], Collection[str]], task: Task, known: Known, tally: Tally
) -> Opened | None:
    """What is to be done with an open inode; None: nothing. ``names``: path → its extended attributes.

    Raises OSError and OddAttribute.
    """
    facts = os.fstat(handle)
    proc = f"/proc/self/fd/{handle}"
    ids: set[tuple[str, int]] = set()
    uid_of, gid_of = _noted("uid", task.uid, ids), _noted("gid", task.gid, ids)
    uid, gid = uid_of(facts.st_uid), gid_of(facts.st_gid)
    kind = stat.S_IFMT(facts.st_mode)
    found = names(proc) if kind in (stat.S_IFREG, stat.S_IFDIR) else []
    acls = {}
    for one in ACLS:
        if one in found:
            value = attributes.acl_moved(os.getxattr(proc, one), uid_of, gid_of)
            if value is not None:
                acls[one] = value
    work = Opened(handle, path, facts, -1 if uid is None else uid, -1 if gid is None else gid, acls, ids=ids)
    work.chown = uid is not None or gid is not None
    capability = os.getxattr(proc, attributes.CAPABILITY) if attributes.CAPABILITY in found else None
    moved = None if capability is None else attributes.capability_moved(capability, uid_of)
    if capability is not None and (work.chown or moved is not None):
        work.capability = capability if moved is None else moved
    if kind == stat.S_IFREG and work.chown and facts.st_mode & 0o6000:
        work.mode = stat.S_IMODE(facts.st_mode)
    before = find(known, path, facts) if task.apply else None
    if before is not None:
        uid_of(before.owners[0][0]), gid_of(before.owners[0][1])
        _take_up(work, before, capability)
    if acls:
        tally.acls += 1
    return work if work.chown or work.acls or work.special else None


def _noted(kind: str, mapping: Mapping, ids: set[tuple[str, int]]) -> Callable[[int], int | None]:
    """The same mapping, which notes in ``ids`` what it was asked for."""

    def becomes(one: int) -> int | None:
        move = mapping.find(one)
        if move is not None:
            ids.add((kind, move.old))
        return mapping(one)

    return becomes


def _take_up(work: Opened, before: Special, capability: bytes | None) -> None:
    """Add what a boot that was cut off had taken from it and not given back."""
    wanted = bytes.fromhex(before.capability)
    if wanted and work.capability is None and capability != wanted:
        work.capability = wanted
    if before.mode >= 0 and work.mode < 0 and stat.S_IMODE(work.facts.st_mode) != before.mode:
        work.mode = before.mode
    if before.flags:
        handle = opened(work.proc)
        try:
            if read_inode_flags(handle) & STOPS != before.flags or work.chown or work.acls or work.special:
                work.flags = before.flags
        finally:
            os.close(handle)


def record(work: Opened, task: Task) -> Special:
    """What is written down of it before anything happens to it."""
    facts = work.facts
    after = (work.uid if work.uid >= 0 else facts.st_uid, work.gid if work.gid >= 0 else facts.st_gid)
    return Special(
        task.phase, task.tree, work.path, facts.st_ino, ((facts.st_uid, facts.st_gid), after),
        work.mode, (work.capability or b"").hex(), work.flags, facts.st_mtime_ns,
    )  # fmt: skip


def lift(work: Opened, handle: int, write: Callable[[], None]) -> bool:
    """Take the flags off that keep it from changing hands; returns whether there are any.

    ``write``: writes down what it has by now.
    """
    found = read_inode_flags(handle)
    if not found & STOPS:
        return False
    work.flags |= found & STOPS
    write()
    set_flags(handle, found & ~STOPS)
    return True


def change(work: Opened) -> None:
    """Give it to its new owner, with all that it had. Raises OSError."""
    if work.chown:
        os.chown(work.proc, work.uid, work.gid)
    for name, value in work.acls.items():
        os.setxattr(work.proc, name, value)
    if work.mode >= 0:
        os.chmod(work.proc, work.mode)  # guard: setuid stays setuid
    if work.capability is not None:
        os.setxattr(work.proc, attributes.CAPABILITY, work.capability)  # guard: a capability stays

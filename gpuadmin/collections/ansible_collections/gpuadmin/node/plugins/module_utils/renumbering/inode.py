"""Giving inodes of one directory to other ids, with all that names ids in them. The directory is the current one.

What nobody but root and the people who are being renumbered can exchange is changed by its name: they have no
processes. Everything else, and what has something to lose, is opened first and changed through its descriptor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import in_words
from ..inode_flags import STOPS, flags_of, opened, set_flags
from . import attributes
from .ids import Mapping
from .special import Special, Specials

AT_ONCE = 200  # inodes that are open
MOST_WORDS = 20
_PATH = getattr(os, "O_PATH", 0o10000000)


@dataclass
class Tally:
    """What a walk saw and did. ``uids``, ``gids``: id → entries and bytes on disk; a byte of several links once."""

    seen: int = 0
    changed: int = 0
    acls: int = 0
    kept: int = 0  # inodes that had something to lose, and have it
    uids: dict[int, list[int]] = field(default_factory=dict)
    gids: dict[int, list[int]] = field(default_factory=dict)
    taken: dict[str, list[int]] = field(default_factory=dict)  # "uid 20003" → as uids
    snapshots: int = 0
    failed: int = 0
    words: list[str] = field(default_factory=list)

    def say(self, path: str, words: str) -> None:
        self.failed += 1
        if len(self.words) < MOST_WORDS:
            self.words.append(f"{path[-200:]!r} {words}")

    def add(self, other: Tally) -> None:
        for name in ("seen", "changed", "acls", "kept", "snapshots", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, more in ((self.uids, other.uids), (self.gids, other.gids)):
            for one, (entries, size) in more.items():
                count(mine, one, entries, size)
        for key, (entries, size) in other.taken.items():
            count(self.taken, key, entries, size)
        self.words = (self.words + other.words)[:MOST_WORDS]


def count(table: dict[Any, list[int]], key: object, entries: int, size: int) -> None:
    found = table.setdefault(key, [0, 0])
    found[0] += entries
    found[1] += size


@dataclass(frozen=True)
class Task:
    """What a walk does. ``taken``: ids that must be nobody's, looked for where nothing is changed.

    ``quiet_uids``, ``quiet_gids``: whose directories nobody can change meanwhile. ``again``: a walk has just been
    there, so what is theirs by now has no other ACL: only they and root could have given it one.
    """

    phase: int
    tree: str
    uid: Mapping
    gid: Mapping
    apply: bool
    taken_uids: Mapping = field(default_factory=lambda: Mapping(()))
    taken_gids: Mapping = field(default_factory=lambda: Mapping(()))
    quiet_uids: Mapping = field(default_factory=lambda: Mapping(()))
    quiet_gids: Mapping = field(default_factory=lambda: Mapping(()))
    again: bool = False


@dataclass
class _Work:
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

    @property
    def proc(self) -> str:
        return f"/proc/self/fd/{self.handle}"

    @property
    def special(self) -> bool:
        return self.mode >= 0 or self.capability is not None or self.flags != 0


class Changer:
    """Changes what is in directories. ``lock``: descriptor of a file on which those who share inodes wait (flock)."""

    def __init__(self, task: Task, specials: Specials, lock: int = -1) -> None:
        self.task, self.specials, self.lock = task, specials, lock
        self.tally = Tally()
        self.attributes = True

    def quiet(self, facts: os.stat_result) -> bool:
        """Whether only root and people without processes can exchange what is in the current directory."""
        if facts.st_uid and self.task.quiet_uids(facts.st_uid) is None:
            return False
        if facts.st_mode & stat.S_IWOTH:
            return False
        if facts.st_mode & stat.S_IWGRP and facts.st_gid and self.task.quiet_gids(facts.st_gid) is None:
            return False
        return not any(one in attributes.ACLS for one in self._names("."))

    def _names(self, path: str) -> list[str]:
        """The extended attributes of a file or directory; none where the file system has none."""
        if not self.attributes:
            return []
        try:
            return os.listxattr(path, follow_symlinks=path.startswith("/proc/self/fd/"))
        except OSError as error:
            if error.errno == errno.ENOTSUP:
                self.attributes = False
                return []
            raise

    def look(self, name: str, facts: os.stat_result, quiet: bool) -> bool:
        """Change an entry at once, if it is a plain one. Returns whether it has to be looked at with care."""
        task = self.task
        uid, gid = task.uid(facts.st_uid), task.gid(facts.st_gid)
        kind = facts.st_mode & 0o170000
        regular = kind == stat.S_IFREG
        known = task.again and uid is None and gid is None and task.quiet_uids(facts.st_uid) is not None
        found = self._names(name) if self.attributes and not known and (regular or kind == stat.S_IFDIR) else ()
        odd = bool(found) and any(one in attributes.ACLS or one == attributes.CAPABILITY for one in found)
        if uid is None and gid is None:
            return odd or facts.st_ino in self.specials.known
        if (
            not task.apply
            or odd
            or not quiet  # guard: what somebody can exchange meanwhile is opened before it is given away
            or (regular and facts.st_mode & 0o6000)
            or facts.st_ino in self.specials.known
        ):
            return True
        if regular and facts.st_nlink > 1:
            # by another name another of us may be at it: it has changed hands, and its capability is to come back
            again = os.lstat(name)
            if again.st_uid != facts.st_uid or again.st_gid != facts.st_gid:
                return True
        try:
            os.chown(name, -1 if uid is None else uid, -1 if gid is None else gid, follow_symlinks=False)
        except OSError:
            return True  # it is tried again with care, which says what is wrong
        self.tally.changed += 1
        return False

    def careful(self, names: Sequence[str], above: Callable[[], str], linked: bool) -> None:
        """The same for those that need care. ``above``: the path of the current directory. ``linked``: have links."""
        prefix = above()
        for start in range(0, len(names), AT_ONCE):
            if linked and self.lock >= 0:
                fcntl.flock(self.lock, fcntl.LOCK_EX)
            works: list[_Work] = []
            try:
                for name in names[start : start + AT_ONCE]:
                    self._collect(name, prefix, works)
                if not self.task.apply:
                    continue
                written = [self._record(one) for one in works if one.special]
                if written:
                    self.specials.write(written)
                for work in works:
                    self._perform(work)
            finally:
                for work in works:
                    os.close(work.handle)
                if linked and self.lock >= 0:
                    fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _collect(self, name: str, prefix: str, works: list[_Work]) -> None:
        path = f"{prefix}{name}" if name != "." else prefix.rstrip("/") or "."
        try:
            handle = os.open(
                name,
                _PATH
                | os.O_NOFOLLOW  # guard: nothing is given away through a link
                | os.O_CLOEXEC,
            )
        except FileNotFoundError:
            return
        except OSError as error:
            self.tally.say(path, in_words(error))
            return
        try:
            work = self._decide(handle, path)
        except (OSError, attributes.OddAttribute) as error:
            self.tally.say(path, in_words(error))
            work = None
        if work is None:
            os.close(handle)
        else:
            works.append(work)

    def _decide(self, handle: int, path: str) -> _Work | None:
        """What is to be done with an open inode; None: nothing."""
        facts = os.fstat(handle)
        task, proc = self.task, f"/proc/self/fd/{handle}"
        uid, gid = task.uid(facts.st_uid), task.gid(facts.st_gid)
        kind = stat.S_IFMT(facts.st_mode)
        found = self._names(proc) if kind in (stat.S_IFREG, stat.S_IFDIR) else []
        acls = {}
        for one in attributes.ACLS:
            if one in found:
                value = attributes.acl_moved(os.getxattr(proc, one), task.uid, task.gid)
                if value is not None:
                    acls[one] = value
        work = _Work(handle, path, facts, -1 if uid is None else uid, -1 if gid is None else gid, acls)
        work.chown = uid is not None or gid is not None
        capability = os.getxattr(proc, attributes.CAPABILITY) if attributes.CAPABILITY in found else None
        moved = None if capability is None else attributes.capability_moved(capability, task.uid)
        if capability is not None and (work.chown or moved is not None):
            work.capability = capability if moved is None else moved
        if kind == stat.S_IFREG and work.chown and facts.st_mode & 0o6000:
            work.mode = stat.S_IMODE(facts.st_mode)
        before = self.specials.of(path, facts)
        if before is not None:
            self._take_up(work, before, capability)
        if acls:
            self.tally.acls += 1
        if work.chown or work.acls or work.special:
            return work
        self.tally.kept += before is not None
        return None

    def _take_up(self, work: _Work, before: Special, capability: bytes | None) -> None:
        """Add what an earlier try had taken from it and not given back."""
        wanted = bytes.fromhex(before.capability)
        if wanted and work.capability is None and capability != wanted:
            work.capability = wanted
        if before.mode >= 0 and work.mode < 0 and stat.S_IMODE(work.facts.st_mode) != before.mode:
            work.mode = before.mode
        if before.flags:
            handle = opened(work.proc)
            try:
                if flags_of(handle) & STOPS != before.flags or work.chown or work.acls or work.special:
                    work.flags = before.flags
            finally:
                os.close(handle)

    def _record(self, work: _Work) -> Special:
        facts = work.facts
        after = (work.uid if work.uid >= 0 else facts.st_uid, work.gid if work.gid >= 0 else facts.st_gid)
        return Special(
            self.task.phase, self.task.tree, work.path, facts.st_ino, ((facts.st_uid, facts.st_gid), after),
            work.mode, (work.capability or b"").hex(), work.flags,
        )  # fmt: skip

    def _perform(self, work: _Work) -> None:
        try:
            try:
                self._do(work)
            except PermissionError:
                handle = opened(work.proc)
                try:
                    if not self._lift(work, handle):
                        raise
                    self._do(work)
                finally:
                    os.close(handle)
            if work.flags:
                handle = opened(work.proc)
                try:
                    set_flags(handle, flags_of(handle) | work.flags)  # guard: immutable stays immutable
                finally:
                    os.close(handle)
            self.tally.changed += 1
        except OSError as error:
            self.tally.say(work.path, in_words(error))

    def _lift(self, work: _Work, handle: int) -> bool:
        """Take the flags off that keep it from changing hands; returns whether there are any."""
        found = flags_of(handle)
        if not found & STOPS:
            return False
        work.flags |= found & STOPS
        self.specials.write([self._record(work)])
        set_flags(handle, found & ~STOPS)
        return True

    def _do(self, work: _Work) -> None:
        if work.chown:
            os.chown(work.proc, work.uid, work.gid)
        for name, value in work.acls.items():
            os.setxattr(work.proc, name, value)
        if work.mode >= 0:
            os.chmod(work.proc, work.mode)  # guard: setuid stays setuid
        if work.capability is not None:
            os.setxattr(work.proc, attributes.CAPABILITY, work.capability)  # guard: a capability stays

    def measure(self, facts: os.stat_result) -> None:
        """Count an entry of the people of the plan, and one whose id must be nobody's."""
        task = self.task
        size = facts.st_blocks * 512 // max(1, facts.st_nlink if not stat.S_ISDIR(facts.st_mode) else 1)
        if task.uid(facts.st_uid) is not None:
            count(self.tally.uids, facts.st_uid, 1, size)
        elif task.gid(facts.st_gid) is not None:
            count(self.tally.gids, facts.st_gid, 1, size)
        if task.taken_uids(facts.st_uid) is not None:
            count(self.tally.taken, f"uid {facts.st_uid}", 1, size)
        if task.taken_gids(facts.st_gid) is not None:
            count(self.tally.taken, f"gid {facts.st_gid}", 1, size)

"""Giving inodes of one directory to other ids, with all that names ids in them. The directory is the current one.

Inodes change hands at boot, before anybody is there. What has something to lose is opened first, and written down.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence

from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import ACLS, OddAttribute
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.inode_flags import flags_of, opened, set_flags

from . import attributes
from .ids import MOST_KNOWN
from .opened import Opened, change, decide, lift, record
from .special import Flight, Known
from .task import Tally, Task, measure

AT_ONCE = 200  # inodes that are open
_WITH_ATTRIBUTES = (stat.S_IFREG, stat.S_IFDIR)  # others have no ACL and no capability
_PATH = getattr(os, "O_PATH", 0o10000000)


class Changer:
    """Changes what is in directories, or looks at it. ``lock``: descriptor of a file on which those who share inodes
    wait (flock). ``flight``: where it writes down what has something to lose; None: nothing is changed."""

    def __init__(self, task: Task, known: Known, flight: Flight | None = None, lock: int = -1) -> None:
        self.task, self.known, self.flight, self.lock = task, known, flight, lock
        self.tally = Tally()
        self.attributes = True
        self._becomes: dict[tuple[int, int], tuple[int, int]] = {}

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
            if error.errno == errno.E2BIG:  # so many that they cannot be listed: anybody can give a file of theirs that
                return [one for one in (*ACLS, attributes.CAPABILITY) if self._has(path, one)]
            raise

    @staticmethod
    def _has(path: str, name: str) -> bool:
        try:
            os.getxattr(path, name, follow_symlinks=path.startswith("/proc/self/fd/"))
        except OSError as error:
            if error.errno in (errno.ENODATA, errno.ENOTSUP):
                return False
            raise
        return True

    def directory(
        self, handle: int, facts: os.stat_result, above: Callable[[], str]
    ) -> list[tuple[str, os.stat_result]]:
        """Change what is in an open directory; return the directories in it, and what is mounted there. ``above``: its
        path."""
        os.fchdir(handle)
        measured = not self.task.apply
        below, deferred, linked, seen = [], [], False, 0
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                        if found.st_mode & 0o170000 == stat.S_IFDIR:
                            below.append((entry.name, found))
                            if found.st_dev != facts.st_dev:
                                continue  # a subvolume, or something that is mounted
                        seen += 1
                        if measured:
                            measure(self.task, self.tally, found)
                        if self.look(entry.name, found):
                            deferred.append(entry.name)
                            linked = linked or (found.st_nlink > 1 and stat.S_ISREG(found.st_mode))
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        self.tally.say(above() + entry.name, in_words(error))
        except OSError as error:
            self.tally.say(above(), in_words(error))  # guard: what cannot be listed has not changed hands
        self.tally.seen += seen
        if deferred:
            self.careful(deferred, above, linked)
        return below

    def look(self, name: str, facts: os.stat_result) -> bool:
        """Change an entry at once, if it is a plain one. Returns whether it has to be looked at with care.

        All files of a host go through here: what is asked twice is remembered, and nothing is called that need not be.
        """
        pair = facts.st_uid, facts.st_gid
        uid, gid = self._becomes.get(pair) or self._remembered(pair)
        mode = facts.st_mode
        kind = mode & 0o170000
        odd = False
        if kind in _WITH_ATTRIBUTES and self.attributes:
            try:
                found = os.listxattr(name, follow_symlinks=False)
            except OSError:
                found = self._names(name)
            odd = bool(found) and any(one in ACLS or one == attributes.CAPABILITY for one in found)
        if facts.st_ino in self.known:  # guard: what a cut has left without its bits, or its flags, gets them again
            return True
        if uid < 0 and gid < 0:
            return odd
        if not self.task.apply or odd or (mode & 0o6000 and kind == stat.S_IFREG):
            return True
        if facts.st_nlink > 1 and kind == stat.S_IFREG:
            # another process may be changing the inode by another name, and has a capability to give back to it
            again = os.lstat(name)
            if again.st_uid != facts.st_uid or again.st_gid != facts.st_gid:
                return True
        try:
            # guard: nothing is given away through a link -> os.chown(name, uid, gid)
            os.lchown(name, uid, gid)
        except OSError:
            return True  # it is tried again with care, which says what is wrong
        self.tally.changed += 1
        return False

    def _remembered(self, pair: tuple[int, int]) -> tuple[int, int]:
        """What a uid and a gid become, -1 for one that stays."""
        uid, gid = self.task.uid(pair[0]), self.task.gid(pair[1])
        if len(self._becomes) >= MOST_KNOWN:
            self._becomes.clear()
        return self._becomes.setdefault(pair, (-1 if uid is None else uid, -1 if gid is None else gid))

    def careful(self, names: Sequence[str], above: Callable[[], str], linked: bool) -> None:
        """The same for those that need care. ``above``: the path of the current directory. ``linked``: have links."""
        prefix = above()
        for start in range(0, len(names), AT_ONCE):
            if linked and self.lock >= 0:
                fcntl.flock(self.lock, fcntl.LOCK_EX)
            works: list[Opened] = []
            try:
                for name in names[start : start + AT_ONCE]:
                    self._collect(name, prefix, works)
                flight = self.flight
                if flight is None:  # guard: a look changes nothing
                    continue
                written = [record(one, self.task) for one in works if one.special]
                if written:
                    flight.write(written)  # guard: what an inode would lose is written down before it changes hands
                for work in works:
                    self._perform(work, flight)
                if any(one.special for one in works):
                    flight.clear()  # guard: what is whole is written down no more
            finally:
                for work in works:
                    os.close(work.handle)
                if linked and self.lock >= 0:
                    fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _collect(self, name: str, prefix: str, works: list[Opened]) -> None:
        path = f"{prefix}{name}" if name != "." else prefix.rstrip("/") or "."
        try:
            handle = os.open(name, _PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            self.tally.say(path, in_words(error))
            return
        try:
            work = decide(handle, path, self._names, self.task, self.known, self.tally)
        except (OSError, OddAttribute) as error:
            self.tally.say(path, in_words(error))
            work = None
        if work is None:
            os.close(handle)
        else:
            works.append(work)

    def _perform(self, work: Opened, flight: Flight) -> None:
        try:
            try:
                change(work)
            except PermissionError:
                handle = opened(work.proc)
                try:
                    if not lift(work, handle, lambda: flight.write([record(work, self.task)])):
                        raise
                    change(work)
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

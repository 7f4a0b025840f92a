"""Giving inodes of one directory to other ids, with all that names ids in them. The directory is the current one.

Inodes change hands at boot, before anybody is there. What has something to lose is opened first, and written down.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import os
import stat
from collections.abc import Callable, Sequence

from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import ACLS, OddAttribute
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.inode_flags import opened, read_inode_flags, set_flags

from . import attributes
from .ids import MOST_KNOWN
from .opened import Opened, change, decide, lift, record
from .special import Flight, Known
from .task import Tally, Task, measure

AT_ONCE = 200  # inodes that are open
MOST_BELOW = 20_000  # directories of one directory that are held
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
        """Change what is in an open directory; return the directories in it, and what is mounted there. Where there are
        more than MOST_BELOW, one more than that is returned. ``above``: its path."""
        os.fchdir(handle)
        measured = not self.task.apply
        below: list[tuple[str, os.stat_result]] = []
        deferred, linked, seen = [], False, 0
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                        if found.st_mode & 0o170000 == stat.S_IFDIR:
                            if len(below) <= MOST_BELOW:  # with one more than that they are asked for again
                                below.append((entry.name, found))
                            if found.st_dev != facts.st_dev:
                                continue  # a subvolume, or something that is mounted
                        seen += 1
                        if measured:
                            measure(self.task, self.tally, found)
                        if self.look(entry.name, found):
                            deferred.append(entry.name)
                            linked = linked or (found.st_nlink > 1 and stat.S_ISREG(found.st_mode))
                        if len(deferred) == AT_ONCE:  # guard: nobody's directory takes memory without end
                            self.careful(deferred, above, linked)
                            deferred.clear()
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

    def find_below(
        self, handle: int, after: int, above: Callable[[], str]
    ) -> tuple[list[tuple[str, os.stat_result]], int]:
        """Some directories of one that has too many to be held at once: those that come next by their inodes' numbers,
        and after which number the others come; -1: there are none."""
        try:
            with os.scandir(handle) as entries:
                later = (one for one in entries if one.inode() > after and one.is_dir(follow_symlinks=False))
                some = heapq.nsmallest(MOST_BELOW, later, key=os.DirEntry.inode)
                last = some[-1].inode() if len(some) == MOST_BELOW else -1
                return [(one.name, one.stat(follow_symlinks=False)) for one in some], last
        except OSError as error:
            self.tally.say(above(), in_words(error))
            return [], -1

    def look(self, name: str, facts: os.stat_result) -> bool:
        """Change an entry at once, if it is a plain one. Returns whether it has to be looked at with care.

        All files of a host go through here: what is asked twice is remembered, and nothing is called that need not be.
        """
        pair = facts.st_uid, facts.st_gid
        uid, gid = self._becomes.get(pair) or self._look_up(pair)
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

    def _look_up(self, pair: tuple[int, int]) -> tuple[int, int]:
        """What a uid and a gid become, -1 for one that stays."""
        uid, gid = self.task.uid(pair[0]), self.task.gid(pair[1])
        if len(self._becomes) >= MOST_KNOWN:
            self._becomes.clear()
        return self._becomes.setdefault(pair, (-1 if uid is None else uid, -1 if gid is None else gid))

    def careful(self, names: Sequence[str], above: Callable[[], str], linked: bool) -> None:
        """The same for those that need care, AT_ONCE of them. ``above``: the path of the current directory. ``linked``:
        have links."""
        prefix, works = above(), list[Opened]()
        if linked and self.lock >= 0:
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            for name in names:
                self._collect(name, prefix, works)
            flight = self.flight
            if flight is None:  # guard: a look changes nothing
                for work in works:  # guard: what the disk does not have is not done
                    self.tally.keep(work.ids, work.path, "still has an old id")
                return
            written = [record(one, self.task) for one in works if one.special]
            if written:
                flight.write(written)  # guard: what an inode would lose is written down before it changes hands
            whole = [self._perform(work, flight) for work in works]
            if not all(whole):
                flight.keep()  # guard: what an inode has lost, and not back yet, stays written down
            elif any(one.special for one in works):
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

    def _perform(self, work: Opened, flight: Flight) -> bool:
        """Returns whether it has all that it is to have."""
        try:
            try:
                change(work)
            except PermissionError:

                def note() -> None:
                    flight.write([record(work, self.task)])

                self._with_handle(work, lambda handle: lift(work, handle, note))
                change(work)
            finally:
                if work.flags:  # guard: immutable stays immutable
                    self._with_handle(work, lambda handle: set_flags(handle, read_inode_flags(handle) | work.flags))
        except OSError as error:
            words = error.strerror or in_words(error)
            if not work.ids:  # guard: what is nobody's keeps all out
                self.tally.say(work.path, words)
            # guard: an error is a failure, whatever memory says of the owner afterwards
            self.tally.keep(work.ids, work.path, words)
            return False
        self.tally.changed += 1
        return True

    @staticmethod
    def _with_handle(work: Opened, act: Callable[[int], object]) -> None:
        handle = opened(work.proc)
        try:
            act(handle)
        finally:
            os.close(handle)

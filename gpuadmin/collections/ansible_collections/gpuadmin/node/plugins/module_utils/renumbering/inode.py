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

from ..errors import in_words
from ..inode_flags import flags_of, opened, set_flags
from . import attributes
from .ids import MOST_KNOWN
from .opened import Opened, change, decide, lift, record
from .special import Specials
from .task import Tally, Task, measure

AT_ONCE = 200  # inodes that are open
_WITH_ATTRIBUTES = (stat.S_IFREG, stat.S_IFDIR)  # others have no ACL and no capability
_PATH = getattr(os, "O_PATH", 0o10000000)


class Changer:
    """Changes what is in directories. ``lock``: descriptor of a file on which those who share inodes wait (flock)."""

    def __init__(self, task: Task, specials: Specials, lock: int = -1) -> None:
        self.task, self.specials, self.lock = task, specials, lock
        self.tally = Tally()
        self.attributes = True
        #: Uid and gid of what a walk has seen to that has just been there.
        self.settled: set[tuple[int, int]] = set()
        self._becomes: dict[tuple[int, int], tuple[int, int]] = {}

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
            if error.errno == errno.E2BIG:  # so many that they cannot be listed: anybody can give a file of theirs that
                return [one for one in (*attributes.ACLS, attributes.CAPABILITY) if self._has(path, one)]
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
        settled, known, measured = self.settled, self.specials.known, not self.task.apply
        below, deferred, linked, seen = [], [], False, 0
        try:
            quiet = self.quiet(facts)
            with os.scandir(handle) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                        if found.st_mode & 0o170000 == stat.S_IFDIR:
                            below.append((entry.name, found))
                            if found.st_dev != facts.st_dev:
                                continue  # a subvolume, or something that is mounted
                        seen += 1
                        if (found.st_uid, found.st_gid) in settled and found.st_ino not in known:
                            continue
                        if measured:
                            measure(self.task, self.tally, found)
                        if self.look(entry.name, found, quiet):
                            deferred.append(entry.name)
                            linked = linked or (found.st_nlink > 1 and stat.S_ISREG(found.st_mode))
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        self.tally.say(above() + entry.name, in_words(error))
        except OSError as error:
            self.tally.say(above(), in_words(error))
        self.tally.seen += seen
        if deferred:
            self.careful(deferred, above, linked)
        return below

    def look(self, name: str, facts: os.stat_result, quiet: bool) -> bool:
        """Change an entry at once, if it is a plain one. Returns whether it has to be looked at with care.

        All files of a host go through here: what is asked twice is remembered, and nothing is called that need not be.
        """
        pair = facts.st_uid, facts.st_gid
        uid, gid = self._becomes.get(pair) or self._remembered(pair)
        mode = facts.st_mode
        kind = mode & 0o170000
        odd = False
        if kind in _WITH_ATTRIBUTES and self.attributes and pair not in self.settled:
            try:
                found = os.listxattr(name, follow_symlinks=False)
            except OSError:
                found = self._names(name)
            odd = bool(found) and any(one in attributes.ACLS or one == attributes.CAPABILITY for one in found)
        if uid < 0 and gid < 0:
            return odd or facts.st_ino in self.specials.known
        if (
            not self.task.apply
            or odd
            or not quiet  # guard: what somebody can exchange meanwhile is opened before it is given away
            or (mode & 0o6000 and kind == stat.S_IFREG)
            or facts.st_ino in self.specials.known
        ):
            return True
        if facts.st_nlink > 1 and kind == stat.S_IFREG:
            # by another name another of us may be at it: it has changed hands, and its capability is to come back
            again = os.lstat(name)
            if again.st_uid != facts.st_uid or again.st_gid != facts.st_gid:
                return True
        try:
            os.lchown(name, uid, gid)
        except OSError:
            return True  # it is tried again with care, which says what is wrong
        self.tally.changed += 1
        return False

    def _remembered(self, pair: tuple[int, int]) -> tuple[int, int]:
        """What a uid and a gid become, -1 for one that stays; and whether what has them needs no second look."""
        task = self.task
        uid, gid = task.uid(pair[0]), task.gid(pair[1])
        if len(self._becomes) >= MOST_KNOWN:
            self._becomes.clear()
            self.settled.clear()
        if task.again and uid is None and gid is None and task.quiet_uids(pair[0]) is not None:
            self.settled.add(pair)
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
                if not self.task.apply:
                    continue
                written = [record(one, self.task) for one in works if one.special]
                if written:
                    self.specials.write(written)
                for work in works:
                    self._perform(work)
            finally:
                for work in works:
                    os.close(work.handle)
                if linked and self.lock >= 0:
                    fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _collect(self, name: str, prefix: str, works: list[Opened]) -> None:
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
            work = decide(handle, path, self._names, self.task, self.specials, self.tally)
        except (OSError, attributes.OddAttribute) as error:
            self.tally.say(path, in_words(error))
            work = None
        if work is None:
            os.close(handle)
        else:
            works.append(work)

    def _perform(self, work: Opened) -> None:
        try:
            try:
                change(work, self.tally)
            except PermissionError:
                handle = opened(work.proc)
                try:
                    if not lift(work, handle, lambda: self.specials.write([record(work, self.task)])):
                        raise
                    change(work, self.tally)
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

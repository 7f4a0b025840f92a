"""Copying a tree that somebody else made, entry by entry, relative to open directories.

No path is ever given to the kernel, so none can be too long; a fixed number of directories is open, so none can be too
deep. What is copied: contents with their holes, owners, modes, times, links of both kinds, attributes and ACLs, fifos,
sockets, devices. Root alone can enter the directory of the target.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping

from .. import extents
from ..attributes import attribute_names, read_attributes
from ..btrfs import open_directory
from ..budget import Budget
from ..errors import NodeError
from ..safe_walk import Entry, identity
from .home_walk import visits

Owner = Callable[[int], int]
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOATIME


class Copier:
    """Copies into directories that are root's. ``links``: an open directory there, for files of several names.

    Such a file waits in ``links`` under its number for its further names, and goes with the last one: so however many
    there are, none is remembered here. ``owner`` translates ids.
    """

    def __init__(self, links: int, budget: Budget, owner: Owner = lambda one: one) -> None:
        self._links = links
        self._budget = budget
        self._owner = owner

    def tree(self, source: int, nested: Mapping[str, str], at: int, name: bytes) -> None:
        """Copy the open directory ``source`` to the new ``name`` in the open directory ``at``.

        ``nested``: path below it → where the snapshot of the subvolume lies that was there.
        """
        os.mkdir(name, 0o700, dir_fd=at)
        there = open_directory(name, at)
        try:
            self.fill(source, nested, there)
        finally:
            os.close(there)

    def fill(self, source: int, nested: Mapping[str, str], there: int) -> None:
        """Make the open and empty directory ``there`` what ``source`` is.

        The directories of the copy are entered and left with those of the walk.
        """
        here, above = os.dup(there), [identity(os.fstat(there))]
        try:
            for entry in visits(source, nested, self._budget):
                name = entry.path.rpartition(b"/")[2]
                if entry.leaving:
                    outer = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
                    os.close(here)
                    here = outer
                    above.pop()
                    if identity(os.fstat(here)) != above[-1]:
                        raise NodeError(f"{os.fsdecode(entry.path)!r} was moved while it was copied")
                    self._finish(entry, here, name)
                elif entry.is_directory:
                    os.mkdir(name, 0o700, dir_fd=here)
                    inner = open_directory(name, here)
                    os.close(here)
                    here = inner
                    above.append(identity(os.fstat(here)))
                else:
                    self.entry(entry, here, name)
        finally:
            os.close(here)
        self._give(source, there, os.fstat(source))

    def directory(self, entry: Entry, at: int, name: bytes) -> None:
        """Make a directory like ``entry``, with nothing in it, or give one that is there what it lacks."""
        try:
            os.mkdir(name, 0o700, dir_fd=at)
        except FileExistsError:
            pass
        self._finish(entry, at, name)

    def entry(self, entry: Entry, at: int, name: bytes) -> None:
        """Copy one entry that is not a directory to the new ``name`` in the open directory ``at``."""
        facts = entry.facts
        if stat.S_ISLNK(facts.st_mode):
            os.symlink(os.readlink(entry.name, dir_fd=entry.at), name, dir_fd=at)
            os.chown(name, self._owner(facts.st_uid), self._owner(facts.st_gid), dir_fd=at, follow_symlinks=False)
            os.utime(name, ns=(facts.st_atime_ns, facts.st_mtime_ns), dir_fd=at, follow_symlinks=False)
        elif stat.S_ISREG(facts.st_mode):
            if facts.st_nlink > 1:
                self._linked(entry, at, name)
            else:
                self._regular(entry, at, name)
        else:
            os.mknod(name, stat.S_IFMT(facts.st_mode) | 0o600, facts.st_rdev, dir_fd=at)
            self._finish(entry, at, name)

    def _linked(self, entry: Entry, at: int, name: bytes) -> None:
        facts = entry.facts
        waiting = f"{facts.st_dev}-{facts.st_ino}".encode()
        try:
            made = os.stat(waiting, dir_fd=self._links, follow_symlinks=False).st_nlink
        except FileNotFoundError:
            self._regular(entry, self._links, waiting)
            made = 1
        if made < facts.st_nlink:  # the name in ``links`` is one of them
            os.link(waiting, name, src_dir_fd=self._links, dst_dir_fd=at, follow_symlinks=False)
        else:
            os.rename(waiting, name, src_dir_fd=self._links, dst_dir_fd=at)

    def _regular(self, entry: Entry, at: int, name: bytes) -> None:
        source = os.open(entry.name, _READ, dir_fd=entry.at)
        try:
            if identity(os.fstat(source)) != identity(entry.facts):
                raise NodeError(f"{os.fsdecode(entry.path)!r} was exchanged while it was copied")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(name, flags, 0o600, dir_fd=at)
            try:
                extents.copy(source, target, entry.facts.st_size, self._budget)
                self._give(source, target, entry.facts)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _finish(self, entry: Entry, at: int, name: bytes) -> None:
        """Give a directory, fifo, socket or device of the copy what the original has; neither is opened for reading."""
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        source = os.open(entry.name, flags, dir_fd=entry.at)
        try:
            target = os.open(name, flags, dir_fd=at)
            try:
                self._give(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}", entry.facts)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _give(self, source: int | str, target: int | str, facts: os.stat_result) -> None:
        owner = self._owner(facts.st_uid), self._owner(facts.st_gid)
        times = facts.st_atime_ns, facts.st_mtime_ns
        give(target, owner, read_attributes(source), stat.S_IMODE(facts.st_mode), times)


def give(
    target: int | str, owner: tuple[int, int], attributes: Mapping[str, bytes], mode: int, times: tuple[int, int]
) -> None:
    """Owner, attributes, mode, times: in this order, because each takes back some of what comes after it."""
    os.chown(target, *owner)
    for name in attribute_names(target):
        if name not in attributes:
            os.removexattr(target, name)  # what a file system or a default ACL gave
    for name, value in attributes.items():
        os.setxattr(target, name, value)
    os.chmod(target, mode)
    os.utime(target, ns=times)

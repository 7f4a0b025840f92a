"""Deleting a tree, entry by entry, each only if it may go: what may not stays where it is and is reported.

No link is followed and nothing that is mounted is entered. Flags of chattr are taken off what goes. Cut at any moment,
it goes on where it was.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping

from gpuadmin.common.records.people import Purged

from . import btrfs, extents, inode_flags
from .budget import unlimited
from .errors import NodeError, in_words
from .lookup import owner
from .safe_walk import Entry, same_mount, walk

MOST_REASONS = 10


#: Given an entry, why it must stay; None: it may go.
Judge = Callable[[Entry], "str | None"]


def keep(done: Purged, path: bytes, reason: str) -> None:
    """Note of what was done that an entry stays, and why; of the first few in words."""
    done.kept += 1
    if len(done.words) < MOST_REASONS:
        done.words.append(f"{os.fsdecode(path)!r} {reason}")


class Twin:
    """The backup's side of a walk: follows it down and up, and finds an entry's counterpart.

    One directory of it is open, and one more for each subvolume on the way, however deep the walk is.
    """

    def __init__(self, top: str, nested: Mapping[str, str], begun: int = 0) -> None:
        """``begun``: of what was changed since, the same times do not mean the same content (``Backup.begun``)."""
        self._top = top
        self._begun = begun
        self._nested = {os.fsencode(path): where for path, where in nested.items()}
        self._path: list[bytes] = []
        self._here = -1
        self._outside: list[tuple[int, int]] = []  # where a subvolume was entered: depth, the directory around it

    def __enter__(self) -> Twin:
        self._here = btrfs.open_directory(self._top)
        return self

    def __exit__(self, *_: object) -> None:
        for handle in (self._here, *(handle for _depth, handle in self._outside)):
            os.close(handle)

    def _up(self) -> None:
        if self._outside and self._outside[-1][0] == len(self._path):
            outer = self._outside.pop()[1]
        else:
            outer = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._here)
        os.close(self._here)
        self._here = outer
        self._path.pop()

    def directory(self, path: bytes) -> int | None:
        """The counterpart of a directory of the walk, open until the next is asked for; None for none."""
        parts = path.split(b"/") if path else []
        while self._path != parts[: len(self._path)]:
            self._up()
        for part in parts[len(self._path) :]:
            inner = self._nested.get(b"/".join([*self._path, part])) if self._nested else None
            try:
                handle = btrfs.open_directory(part, self._here) if inner is None else btrfs.open_directory(inner)
            except OSError:
                return None
            self._path.append(part)
            if inner is None:
                os.close(self._here)
            else:
                self._outside.append((len(self._path), self._here))
            self._here = handle
        return self._here

    def judge(self, entry: Entry) -> str | None:
        """An entry may go if the backup has the same: inode, kind, and for files size and time of change."""
        directory, _, name = entry.path.rpartition(b"/")
        handle = self.directory(directory)
        if handle is None:
            return "is not in the backup"
        try:
            saved = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except OSError:
            return "is not in the backup"
        now = entry.facts
        if stat.S_IFMT(saved.st_mode) != stat.S_IFMT(now.st_mode):
            return "is not what it is in the backup"
        if stat.S_ISDIR(now.st_mode):
            return None  # what is in it decides
        if saved.st_ino != now.st_ino:  # guard: a wipe goes by the inode
            return "is not the file in the backup"
        # guard: a link goes only if the backup has one that leads there
        if stat.S_ISLNK(now.st_mode) and not _same_target(entry.at, handle, name):
            return "is not the link in the backup"  # a subvolume that was made again counts inodes from the start
        if not stat.S_ISREG(now.st_mode):
            return None
        if (saved.st_size, saved.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
            return "was changed after the backup"
        # a time of change can be set back, ctime cannot; it moves with a mode, a link or a flag, too
        settled = (
            # guard: what was changed before the backup by a clock that was set back is compared
            saved.st_ctime_ns == now.st_ctime_ns
            # guard: the same times mean the same content only if no snapshot was being made
            and now.st_ctime_ns < self._begun
        )
        # guard: a file whose ctime moved is compared before it goes
        if not settled and not _same_content(entry.at, handle, name, now.st_size):
            return "was changed after the backup"
        return None


def _same_target(one: int, other: int, name: bytes) -> bool:
    try:
        return os.readlink(name, dir_fd=one) == os.readlink(name, dir_fd=other)
    except OSError:
        return False


def _same_content(one: int, other: int, name: bytes, size: int) -> bool:
    """Whether two directories have the same bytes under a name; not where one of them cannot be read now."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        left = os.open(name, flags, dir_fd=one)
        try:
            right = os.open(name, flags, dir_fd=other)
            try:
                return extents.same(left, right, size, unlimited())
            finally:
                os.close(right)
        finally:
            os.close(left)
    except OSError:  # a lease, or a file that somebody who has it open makes shorter: it stays
        return False


def owned_by(uids: range, *more: int) -> Judge:
    """Only what belongs to one of these ids may go: the person's own, and their subordinate ones."""
    others: dict[int, str] = {}  # a directory service is asked once for each

    def judge(entry: Entry) -> str | None:
        uid = entry.facts.st_uid
        if uid in more or uid in uids:
            return None
        if uid not in others:
            others[uid] = f"belongs to {owner(uid)}"
        return others[uid]

    return judge


def enter(entry: Entry, parent: os.stat_result) -> bool:
    """Into all that is on the same mount; a read-only subvolume is made writable."""
    if not same_mount(entry, parent):
        return False
    if entry.facts.st_dev != parent.st_dev:
        handle = btrfs.open_directory(entry.name, entry.at)
        try:
            found = btrfs.read_subvolume(handle)
            if found is not None and found.read_only:
                btrfs.set_writable(handle)
        finally:
            os.close(handle)
    return True


def purge(at: int, name: bytes, judge: Judge, *, itself: Judge | None = None) -> Purged:
    """Delete the entry ``name`` of the open directory ``at``, with all below it that ``judge`` lets go.

    ``itself`` judges the entry itself, in place of ``judge``.
    """
    done = Purged(0, 0, [])
    try:
        facts = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return done
    top = Entry(b"", name, at, facts)
    reason = (itself or judge)(top)
    if reason is not None:
        keep(done, name, reason)
        return done
    if not stat.S_ISDIR(facts.st_mode):
        _unlink(top, done, directory=False)
        return done
    try:
        handle = btrfs.open_directory(name, at)
        try:
            _below(handle, judge, done)
        finally:
            os.close(handle)
    except (NodeError, OSError) as error:  # somebody moves things about in it: the rest of it stays, others go on
        keep(done, name, f"was left in part: {in_words(error)}")
        return done
    _unlink(Entry(name, name, at, facts), done, directory=True)
    return done


def gone(at: int, name: str) -> None:
    """Delete what is ours, if it is there. Raises NodeError for what cannot go."""
    done = purge(at, os.fsencode(name), lambda entry: None)
    if done.kept:
        raise NodeError(f"what was here before cannot be deleted: {', '.join(done.words)}")


def _below(handle: int, judge: Judge, done: Purged) -> None:
    def enter_or_keep(entry: Entry, parent: os.stat_result) -> bool:
        entered = enter(entry, parent)
        if not entered:
            keep(done, entry.path, "is mounted there")
        return entered

    for entry in walk(handle, enter_or_keep, leaving=True, skip=lambda entry, why: keep(done, entry.path, why)):
        if entry.is_directory and not entry.leaving:
            continue
        reason = judge(entry)
        if reason is not None:
            keep(done, entry.path, reason)
        else:
            _unlink(entry, done, directory=entry.leaving)


def _unlink(entry: Entry, done: Purged, *, directory: bool) -> None:
    """Remove one entry. A directory in which something stays, stays."""
    try:
        _remove(entry, directory)
    except PermissionError:
        try:
            _take_flags(entry, directory)
            _remove(entry, directory)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                keep(done, entry.path or entry.name, f"cannot be deleted: {error.strerror}")
            return
    except FileNotFoundError:
        return
    except OSError as error:
        if not (directory and error.errno in (errno.ENOTEMPTY, errno.EEXIST)):
            keep(done, entry.path or entry.name, f"cannot be deleted: {error.strerror}")
        return
    done.deleted += 1
    if not directory and entry.facts.st_nlink == 1:
        done.bytes += entry.facts.st_blocks * 512


def _remove(entry: Entry, directory: bool) -> None:
    if directory:
        os.rmdir(entry.name, dir_fd=entry.at)
    else:
        os.unlink(entry.name, dir_fd=entry.at)


def _take_flags(entry: Entry, directory: bool) -> None:
    """chattr's +i or +a on the entry or on the directory that it is in."""
    inode_flags.clear(entry.at)
    if directory or stat.S_ISREG(entry.facts.st_mode):
        handle = os.open(
            entry.name,
            os.O_RDONLY
            | os.O_NOFOLLOW  # guard: no flag is taken off what a link leads to
            | os.O_NONBLOCK
            | os.O_CLOEXEC,
            dir_fd=entry.at,
        )
        try:
            inode_flags.clear(handle)
        finally:
            os.close(handle)

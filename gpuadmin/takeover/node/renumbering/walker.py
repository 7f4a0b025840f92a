"""One process of a walk: it takes a directory and all below, and gives away what others could do.

A directory is opened by its name in the one above, never through a link, and must be the one that was seen there. The
upper levels stay open; below them the way up is ``..``, which must lead to where we came from. What is mounted inside
is not entered. A read-only subvolume of root's is not either: it is counted.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from dataclasses import dataclass
from multiprocessing.connection import Connection

from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import ACCESS
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory, read_subvolume, set_writable
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import FIRST_HUMAN_UID
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry, identity, same_mount

from . import inode
from .inode import Changer
from .task import measure

KEPT_OPEN = 200  # levels; what is deeper goes up by ".."
LONGEST = 4096  # characters of a path that are kept
MOST_GIVEN = 64  # directories that are given away at once


@dataclass
class _Level:
    name: str
    handle: int  # -1: closed, because there are many below
    facts: os.stat_result
    below: list[tuple[str, os.stat_result]]
    more: int = -1  # where those of a large directory go on, as find_below() has it; -1: there are no more


def is_hidden(handle: int, facts: os.stat_result) -> bool:
    """Whether an open directory lets none but root in."""
    if facts.st_uid or facts.st_mode & stat.S_IXOTH:
        return False
    if not facts.st_mode & stat.S_IXGRP:
        return True
    # guard: who gets in by a system group or an ACL reaches what is in there
    return facts.st_gid == 0 and not _has_acl(handle)


def _has_acl(handle: int) -> bool:
    """Whether a directory has an ACL; one that is not open any more counts as if it had."""
    try:
        return handle < 0 or ACCESS in os.listxattr(handle)
    except OSError as error:
        return error.errno != errno.ENOTSUP


class Walker:
    """Walks subtrees of ``top``. ``hungry``: a byte that is not 0 while another process has nothing to do."""

    def __init__(self, top: int, changer: Changer, hungry: mmap.mmap | None = None) -> None:
        self.top, self.changer, self.hungry = top, changer, hungry
        self.tally = changer.tally
        self.levels: list[_Level] = []
        self.empty = 0  # levels above this one have nothing left: each is asked once
        self.hidden = False  # where it began is below a directory that lets none but root in

    def begin(self) -> None:
        """The top itself, which no directory of the tree contains."""
        self._itself(self.top, "")

    def _itself(self, handle: int, path: str) -> None:
        """Change an open directory: the top of a tree, or of a subvolume."""
        os.fchdir(handle)
        facts = os.fstat(handle)
        self.tally.seen += 1
        if not self.changer.task.apply:
            measure(self.changer.task, self.tally, facts)
        if self.changer.look(".", facts):
            self.changer.careful(["."], lambda: path, False)

    def walk(self, path: str, give: Connection | None = None) -> None:
        """Everything below the directory ``path`` of the tree."""
        handle = self._descend(path)
        if handle < 0:
            return
        self.path = f"{path}/" if path else ""
        self.levels, self.empty = [_Level("", handle, os.fstat(handle), [])], 0
        self._list()
        while self.levels:
            level = self.levels[-1]
            if not level.below:
                if level.more >= 0:
                    self._list_next_entries(level)
                else:
                    self._leave()
                    self.empty = max(0, min(self.empty, len(self.levels) - 1))
                continue
            if give is not None and self.hungry is not None and self.hungry[0]:
                self._give(give)
                if not level.below:
                    continue
            name, facts = level.below.pop()
            inner = self._enter(name, facts, level)
            if inner < 0:
                continue
            if len(self.levels) > KEPT_OPEN:
                os.close(level.handle)
                level.handle = -1
            self.levels.append(_Level(name, inner, facts, []))
            self._list()

    def _list(self) -> None:
        """Change what is in the innermost directory, and have what is below."""
        level = self.levels[-1]
        level.below = self.changer.directory(level.handle, level.facts, self._above)
        if len(level.below) > inode.MOST_BELOW:
            self._list_next_entries(level)

    def _list_next_entries(self, level: _Level) -> None:
        level.below, level.more = self.changer.find_below(level.handle, level.more, self._above)

    def _above(self) -> str:
        """The path of the directory that we are in, or the end of one that is very long: it is asked for at each level,
        and all of it each time would be the square of the depth."""
        parts: list[str] = []
        length = 0
        for place in range(len(self.levels) - 1, 0, -1):
            if length > LONGEST:
                break
            parts.append(f"{self.levels[place].name}/")
            length += len(parts[-1])
        else:
            parts.append(self.path)
        return "".join(reversed(parts))[-LONGEST:]

    def _descend(self, path: str) -> int:
        """Open a directory of the tree by its path; -1 if it has gone."""
        here, self.hidden = os.dup(self.top), False
        for name in filter(None, path.split("/")):
            self.hidden = self.hidden or is_hidden(here, os.fstat(here))
            try:
                inner = open_directory(name, here)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self.tally.say(path, in_words(error))  # guard: what cannot be taken up has not changed hands
                return -1
            finally:
                os.close(here)
            here = inner
        return here

    def _enter(self, name: str, facts: os.stat_result, level: _Level) -> int:
        """Open a directory that was seen; -1 if it is not entered."""
        try:
            other = facts.st_dev != level.facts.st_dev
            # guard: what is mounted inside is not renumbered with it
            if other and not same_mount(Entry(b"", os.fsencode(name), level.handle, facts), level.facts):
                return -1
            inner = open_directory(name, level.handle)
        except FileNotFoundError:
            return -1
        except OSError as error:
            # guard: what cannot be entered has not changed hands
            self.tally.say(self._above() + name, f"cannot be entered: {in_words(error)}")
            return -1
        # guard: a directory that was exchanged on the way in is not renumbered
        if identity(os.fstat(inner)) != identity(facts):
            self.tally.say(self._above() + name, "was exchanged while it was looked at")
        elif not other or self._is_opened(name, inner, level):
            if other:
                self._itself(inner, f"{self._above()}{name}/")
            return inner
        os.close(inner)
        return -1

    def _is_opened(self, name: str, inner: int, level: _Level) -> bool:
        """Whether a subvolume is gone through. One that is read-only keeps the old ids, and a setuid program in it
        would run as their next owner: a person's own is made writable, and one of root's within reach is named. It is a
        person's own where they could make it: in a directory of theirs, or in one that others write to, as /tmp.
        """
        found = read_subvolume(inner)
        if found is None or not found.read_only:
            return True
        if (
            level.facts.st_uid >= FIRST_HUMAN_UID  # guard: no person keeps old ids in a read-only subvolume
            # guard: a person's own is theirs in a directory for everybody, too
            or (level.facts.st_mode & 0o022 and os.fstat(inner).st_uid >= FIRST_HUMAN_UID)
        ):
            if self.changer.task.apply:
                set_writable(inner)
            else:
                self.tally.note(self._above() + name, "is read-only, and becomes writable")
            return True
        self.tally.snapshots += 1
        within_reach = not (self.hidden or any(is_hidden(one.handle, one.facts) for one in self.levels))
        # guard: people reach no file that keeps the old ids
        if within_reach and not os.fstatvfs(inner).f_flag & os.ST_NOSUID:
            self.tally.reach(self._above() + name)
        return False

    def _leave(self) -> None:
        done = self.levels.pop()
        if self.levels and self.levels[-1].handle < 0:
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=done.handle)
            # guard: the way up leads to where the renumbering came from
            if identity(os.fstat(above)) != identity(self.levels[-1].facts):
                os.close(above)
                self.tally.say(self._above(), "was moved while it was looked at")
                self._back()
            else:
                self.levels[-1].handle = above
        os.close(done.handle)

    def _back(self) -> None:
        """Go on where a directory is still open: what is between was moved."""
        while self.levels[-1].handle < 0:
            self.levels.pop()

    def _give(self, give: Connection) -> None:
        """Give away half of what waits in the uppermost level."""
        for depth in range(self.empty, len(self.levels)):
            level = self.levels[depth]
            if not level.below:
                self.empty = depth
            else:
                if depth == len(self.levels) - 1 and len(level.below) < 2:
                    return
                prefix = self.path + "".join(f"{one.name}/" for one in self.levels[1 : depth + 1])
                amount = min(MOST_GIVEN, (len(level.below) + 1) // 2)
                named, level.below = level.below[:amount], level.below[amount:]
                own = [(name, facts) for name, facts in named if facts.st_dev != level.facts.st_dev]
                level.below += own  # whether a subvolume is entered is asked from the directory above
                paths = [prefix + name for name, facts in named if facts.st_dev == level.facts.st_dev]
                if paths and self.hungry is not None:
                    self.hungry[0] = 0
                    give.send(("more", paths))
                return

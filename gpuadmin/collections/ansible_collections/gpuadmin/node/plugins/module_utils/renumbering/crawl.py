"""One walk over a tree by several processes: each takes a directory and all below, and gives away what others could do.

A directory is opened by its name in the one above, never through a link, and must be the one that was seen there. The
upper levels stay open; below them the way up is ``..``, which must lead to where we came from. What is mounted inside
is not entered, and a read-only subvolume is not either: it is counted.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import stat
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait

from ..btrfs import open_directory, subvolume_of
from ..errors import NodeError, in_words
from ..safe_walk import Entry, identity, same_mount
from .inode import Changer, Tally, Task
from .special import Specials

KEPT_OPEN = 200  # levels; what is deeper goes up by ".."
MOST_GIVEN = 64  # directories that are given away at once


@dataclass
class _Level:
    name: str
    handle: int  # -1: closed, because there are many below
    facts: os.stat_result
    below: list[tuple[str, os.stat_result]]


class Walker:
    """Walks subtrees of ``top``. ``hungry``: a byte that is not 0 while another process has nothing to do."""

    def __init__(self, top: int, changer: Changer, hungry: mmap.mmap | None = None) -> None:
        self.top, self.changer, self.hungry = top, changer, hungry
        self.tally = changer.tally
        self.levels: list[_Level] = []

    def begin(self) -> None:
        """The top itself, which is in no directory of the tree."""
        self._itself(self.top, "")

    def _itself(self, handle: int, path: str) -> None:
        """Change an open directory: the top of a tree, or of a subvolume."""
        os.fchdir(handle)
        facts = os.fstat(handle)
        self.tally.seen += 1
        if not self.changer.task.apply:
            self.changer.measure(facts)
        if self.changer.look(".", facts, False):
            self.changer.careful(["."], lambda: path, False)

    def walk(self, path: str, give: Connection | None = None) -> None:
        """Everything below the directory ``path`` of the tree."""
        handle = self._descend(path)
        if handle < 0:
            return
        self.path = f"{path}/" if path else ""
        self.levels = [_Level("", handle, os.fstat(handle), [])]
        self.levels[0].below = self._visit(handle, self.levels[0].facts)
        while self.levels:
            level = self.levels[-1]
            if not level.below:
                self._leave()
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
            self.levels[-1].below = self._visit(inner, facts)

    def _above(self) -> str:
        return self.path + "".join(f"{level.name}/" for level in self.levels[1:])

    def _descend(self, path: str) -> int:
        """Open a directory of the tree by its path; -1 if it has gone."""
        here = os.dup(self.top)
        for name in filter(None, path.split("/")):
            try:
                inner = open_directory(name, here)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self.tally.say(path, in_words(error))
                return -1
            finally:
                os.close(here)
            here = inner
        return here

    def _enter(self, name: str, facts: os.stat_result, level: _Level) -> int:
        """Open a directory that was seen; -1 if it is not entered."""
        try:
            other = facts.st_dev != level.facts.st_dev
            seen = Entry(b"", os.fsencode(name), level.handle, facts)
            if other and not same_mount(seen, level.facts):  # guard: what is mounted inside is not renumbered with it
                return -1
            inner = open_directory(name, level.handle)
        except FileNotFoundError:
            return -1
        except OSError as error:
            self.tally.say(self._above() + name, f"cannot be entered: {in_words(error)}")
            return -1
        # guard: a directory that was exchanged on the way in is not renumbered
        if identity(os.fstat(inner)) != identity(facts):
            os.close(inner)
            self.tally.say(self._above() + name, "was exchanged while it was looked at")
            return -1
        if facts.st_dev != level.facts.st_dev:
            found = subvolume_of(inner)
            if found is not None and found.read_only:
                self.tally.snapshots += 1
                os.close(inner)
                return -1
            self._itself(inner, f"{self._above()}{name}/")
        return inner

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
        """Go on where a directory is still open: what is between was moved, and another walk finds it."""
        while self.levels[-1].handle < 0:
            self.levels.pop()

    def _visit(self, handle: int, facts: os.stat_result) -> list[tuple[str, os.stat_result]]:
        """Change what is in a directory; return the directories in it."""
        os.fchdir(handle)
        changer, measured = self.changer, not self.changer.task.apply
        below, deferred, linked, seen = [], [], False, 0
        try:
            quiet = changer.quiet(facts)
            with os.scandir(handle) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                        if found.st_dev != facts.st_dev and stat.S_ISDIR(found.st_mode):
                            below.append((entry.name, found))  # a subvolume, or something that is mounted
                            continue
                        seen += 1
                        if measured:
                            changer.measure(found)
                        if changer.look(entry.name, found, quiet):
                            deferred.append(entry.name)
                            linked = linked or (found.st_nlink > 1 and stat.S_ISREG(found.st_mode))
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        self.tally.say(self._above() + entry.name, in_words(error))
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        below.append((entry.name, found))
        except OSError as error:
            self.tally.say(self._above(), in_words(error))
        self.tally.seen += seen
        if deferred:
            changer.careful(deferred, self._above, linked)
        return below

    def _give(self, give: Connection) -> None:
        """Give away half of what waits in the uppermost level."""
        for depth, level in enumerate(self.levels):
            if level.below:
                if depth == len(self.levels) - 1 and len(level.below) < 2:
                    return
                prefix = self.path + "".join(f"{one.name}/" for one in self.levels[1 : depth + 1])
                amount = min(MOST_GIVEN, (len(level.below) + 1) // 2)
                given, level.below = level.below[:amount], level.below[amount:]
                own = [(name, facts) for name, facts in given if facts.st_dev != level.facts.st_dev]
                level.below += own  # whether a subvolume is entered is asked from the directory above
                paths = [prefix + name for name, facts in given if facts.st_dev == level.facts.st_dev]
                if paths and self.hungry is not None:
                    self.hungry[0] = 0
                    give.send(("more", paths))
                return


def crawl(top: int, task: Task, specials: Specials, *, workers: int, lock: int = -1) -> Tally:
    """Walk the whole tree below the open directory ``top``. Raises NodeError if one of the processes was ended."""
    changer = Changer(task, specials, lock)
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        walker = Walker(top, changer)
        walker.begin()
        if workers < 2:
            walker.walk("")
            return changer.tally
    finally:
        os.fchdir(here)
        os.close(here)
    total = changer.tally
    total.add(_shared(top, task, specials, workers, lock))
    return total


def _shared(top: int, task: Task, specials: Specials, workers: int, lock: int) -> Tally:
    hungry, us = mmap.mmap(-1, 1), os.getpid()
    hungry[0] = 1
    children: dict[Connection, int] = {}
    waiting: deque[str] = deque([""])
    total = Tally()
    try:
        for _ in range(workers):
            ours, theirs = Pipe()
            pid = os.fork()
            if pid == 0:
                ours.close()
                _end_with(us)
                _work(top, task, specials, lock, hungry, theirs)
            theirs.close()
            children[ours] = pid
        idle = list(children)
        while True:
            while waiting and idle:
                idle.pop().send(waiting.popleft())
            if len(idle) == len(children):
                break
            hungry[0] = 1 if idle else 0
            for one in wait([child for child in children if child not in idle]):
                assert isinstance(one, Connection)
                try:
                    kind, value = one.recv()
                except EOFError:
                    raise NodeError("a process of the walk was ended; run it again") from None
                if kind == "more":
                    waiting.extend(value)
                elif kind == "failed":
                    raise NodeError(value)
                else:
                    idle.append(one)
        for one in children:
            one.send(None)
            total.add(one.recv()[1])
        return total
    finally:
        for one, pid in children.items():
            one.close()  # whoever still waits ends by that
            os.waitpid(pid, 0)
        hungry.close()


def _end_with(parent: int) -> None:
    """From here on this process is killed when its parent is. Until it is dead it holds the lock of the renumbering."""
    # guard: no process of a walk goes on after the one that began it
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _work(top: int, task: Task, specials: Specials, lock: int, hungry: mmap.mmap, asked: Connection) -> None:
    """What a process of the walk does, until it is told that all is done; it does not return."""
    status = 1
    try:
        if lock >= 0:  # an flock belongs to what was opened: each has its own
            lock = os.open(f"/proc/self/fd/{lock}", os.O_RDWR | os.O_CLOEXEC)
        changer = Changer(task, specials, lock)
        walker = Walker(top, changer, hungry)
        while True:
            path = asked.recv()
            if path is None:
                asked.send(("done", changer.tally))
                status = 0
                return
            walker.walk(path, asked)
            asked.send(("idle", None))
    except EOFError:
        pass  # the one who asked is gone
    except Exception as error:  # it must reach the one who waits, in words
        try:
            asked.send(("failed", in_words(error) if isinstance(error, (OSError, NodeError)) else repr(error)))
        except OSError:
            pass
    finally:
        os._exit(status)

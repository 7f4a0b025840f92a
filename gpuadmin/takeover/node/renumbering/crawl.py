"""One walk over a tree by several processes: each takes a directory, and gives away parts of what is below it."""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait

from ansible_collections.gpuadmin.node.plugins.module_utils.detached import end_with_parent
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import sync_filesystem

from .inode import Changer
from .special import Flight, Known
from .task import Tally, Task
from .walker import Walker

MOST_WORKERS = 16


def count_workers() -> int:
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def crawl(top: int, task: Task, *, workers: int = 0, known: Known | None = None, directory: str = "") -> Tally:
    """Walk the whole tree below the open directory ``top``. ``directory``: of the journal, where inodes are changed.
    ``workers``: 0: as many as there are CPUs.

    Raises NodeError if one of the processes was ended.
    """
    workers, known = workers or count_workers(), known or {}
    changer = _changer(top, task, known, directory)
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
        _end(changer)
    total = changer.tally
    total.add(_shared(top, task, workers, known, directory))
    return total


def _changer(top: int, task: Task, known: Known, directory: str) -> Changer:
    if not task.apply:
        return Changer(task, known)
    flight = Flight.begin(directory, lambda: sync_filesystem(f"/proc/{os.getpid()}/fd/{top}"))
    # an flock belongs to what was opened: each process has its own
    lock = os.open(os.path.join(directory, "links"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return Changer(task, known, flight, lock)


def _end(changer: Changer) -> None:
    if changer.flight is not None:
        os.close(changer.flight.handle)
        os.close(changer.lock)


def _shared(top: int, task: Task, workers: int, known: Known, directory: str) -> Tally:
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
                _work(lambda: _changer(top, task, known, directory), top, hungry, theirs)
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
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def _work(make: Callable[[], Changer], top: int, hungry: mmap.mmap, asked: Connection) -> None:
    """What a process of the walk does, until it is told that all is done; it does not return."""
    status = 1
    try:
        changer = make()
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

"""The same job on many things, each in a process of its own: whatever happens to one, the others go on.

The things are homes, or the parts of a look. If a process takes too long or too much memory, or dies, only that one has
a problem.
"""

from __future__ import annotations

import errno
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .detached import end_with_parent, let_go
from .errors import NodeError, in_words

Task = TypeVar("Task")
Result = TypeVar("Result")
MEMORY = 6 << 30  # bytes of address space; twice what budget.MEMORY lets names take, and Python
PATIENCE = 5.0  # seconds that a process gets to be gone once it has answered or was killed
GRACE = 60.0  # seconds that a process gets to find out by itself that its budget is spent


@dataclass(frozen=True)
class Failed:
    """Why there is no result, in words. ``late``: because it took too long."""

    why: str
    late: bool = False


@dataclass
class _Running(Generic[Task]):
    task: Task
    process: Any
    answer: multiprocessing.connection.Connection
    end: float


def each(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    workers: int,
    seconds: float | Callable[[Task], float],
    *,
    grace: float = GRACE,
    setting: str = "",
) -> Iterator[tuple[Task, Result | Failed]]:
    """Call ``function`` with each task, ``workers`` at a time; yield each with its result as it ends.

    One that goes on for longer than ``seconds`` (or what they are for that task) and a grace is killed. A full disk is
    nobody's problem by itself: that raises OSError. ``setting``: which of a site's the seconds are, for the words.
    """
    waiting = list(reversed(tasks))
    bound = seconds if callable(seconds) else lambda _task: seconds
    running: list[_Running[Task]] = []
    try:
        while waiting or running:
            while waiting and len(running) < max(workers, 1):
                task = waiting.pop()
                running.append(_start(function, task, bound(task) + grace))
            soonest = min(one.end for one in running)
            timeout = None if soonest == float("inf") else max(soonest - time.monotonic(), 0)
            ready = multiprocessing.connection.wait([one.answer for one in running], timeout)
            for one in list(running):
                if one.answer in ready or time.monotonic() > one.end:
                    running.remove(one)
                    yield one.task, _result(one, one.answer in ready, bound(one.task), setting)
    finally:
        for one in running:
            _stop(one)


def _start(function: Callable[[Task], Result], task: Task, seconds: float) -> _Running[Task]:
    context = multiprocessing.get_context("fork")  # what a job runs is not a module that another start could import
    answer, end = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(end, function, task), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the units and modules have none
        process.start()
    end.close()
    return _Running(task, process, answer, time.monotonic() + seconds)


def _child(answer: multiprocessing.connection.Connection, function: Callable[[Task], Result], task: Task) -> None:
    end_with_parent()  # it holds the locks that its parent holds
    let_go()  # the kernel may keep it for ever: a person's own FUSE that does not answer
    bound_memory(MEMORY)
    try:
        outcome: tuple[str, object] = ("result", function(task))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        outcome = ("full", (error.errno, error.strerror)) if full else ("failed", in_words(error))
    except NodeError as error:
        outcome = ("failed", str(error))
    except MemoryError:
        outcome = ("failed", f"takes more than {MEMORY >> 30} GiB of memory")
    except Exception as error:  # the others go on, whatever it is
        outcome = ("failed", f"{type(error).__name__}: {error}")
    answer.send(outcome)


def bound_memory(most: int) -> None:
    """From here on this process may take ``most`` more bytes of address space; what it has from its parent is not its
    own doing, and what it gives back of that it may take again.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as stream:  # proc(5): the first number is all of it, in pages
        most += int(stream.read().split()[0]) * resource.getpagesize()
    # guard: a bound on memory is set
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _result(one: _Running[Task], ready: bool, seconds: float, setting: str) -> Any:
    if not ready:
        _stop(one)
        return Failed(f"did not end within {seconds:g} seconds{setting}", late=True)
    try:
        kind, value = one.answer.recv()
    except (EOFError, OSError):
        one.process.join()
        return Failed(f"its process was ended (status {one.process.exitcode})")
    _stop(one, kill=False)
    if kind == "full":
        raise OSError(*value)
    return value if kind == "result" else Failed(value)


def _stop(one: _Running[Task], *, kill: bool = True) -> None:
    if kill:
        one.process.kill()
    one.process.join(PATIENCE)
    if one.process.exitcode is None:  # the kernel does not let it go, and Python does not wait for it at its end
        multiprocessing.process._children.discard(one.process)  # type: ignore[attr-defined]  # it has no public way
    one.answer.close()

"""The same job on many things, one after the other in one process: what hangs or ends it is one thing's problem.

As each.py, for looks of which each takes microseconds: a new process starts only where one was lost.
"""

from __future__ import annotations

import multiprocessing.connection
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from .detached import end_with_parent, forked, let_go
from .each import Failed
from .errors import NodeError, in_words

Task = TypeVar("Task")
Result = TypeVar("Result")
PATIENCE = 0.2  # seconds that a process gets to be gone once it was killed: the kernel may keep it for ever


def in_turn(
    function: Callable[[Task], Result], tasks: Sequence[Task], *, seconds: float, total: float
) -> Iterator[tuple[Task, Result | Failed]]:
    """Call ``function`` with each task; yield each with its result, in their order.

    ``seconds``: what one may take. ``total``: what all may take: those not reached by then have failed.
    """
    end = time.monotonic() + total
    done = 0
    while done < len(tasks):
        reader, child = _begin(function, tasks[done:])
        try:
            lost = False
            while done < len(tasks) and not lost:
                left = end - time.monotonic()
                outcome, lost = _next(reader, min(seconds, max(left, 0)), spent=left <= 0)
                yield tasks[done], outcome
                done += 1
                if lost and left <= 0:  # guard: what is not reached in time starts no more processes
                    for task in tasks[done:]:
                        yield task, outcome
                    return
        finally:
            reader.close()
            _end(child)


def _next(reader: Any, seconds: float, *, spent: bool) -> tuple[Any, bool]:
    """The next outcome, and whether the process is lost with it."""
    try:
        # guard: what hangs in one's home is that one's problem -> True
        if not reader.poll(seconds):
            return Failed("was not reached in time" if spent else f"did not answer in {seconds:g} s", late=True), True
        kind, value = reader.recv()
    except (EOFError, OSError):
        return Failed("its process was ended"), True
    return (value if kind == "result" else Failed(value)), False


def _begin(function: Callable[[Task], Result], tasks: Sequence[Task]) -> tuple[Any, int]:
    ours, theirs = os.pipe()
    child = forked()
    if child:
        os.close(theirs)
        return multiprocessing.connection.Connection(ours, writable=False), child
    try:
        end_with_parent()
        let_go()  # the kernel may keep it for ever: a person's own FUSE that does not answer
        os.close(ours)
        writer = multiprocessing.connection.Connection(theirs, readable=False)
        for task in tasks:
            writer.send(_outcome(function, task))
    finally:
        os._exit(0)


def _outcome(function: Callable[[Task], Result], task: Task) -> tuple[str, object]:
    try:
        return "result", function(task)
    except (NodeError, OSError) as error:
        return "failed", in_words(error)
    except Exception as error:  # the others go on, whatever it is
        return "failed", f"{type(error).__name__}: {error}"


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < end:
        time.sleep(0.005)  # asked again: waitpid(2) that waits has no deadline

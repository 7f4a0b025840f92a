"""A process that is asked again and again and may hang in the kernel for good: answers are waited for until a deadline.

As isolated_call.py, for whoever asks all the time: to open a driver takes long, to ask an open one milliseconds.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..detached import detach, forked
from ..errors import NodeError
from .isolated_call import MOST, gone, no_answer, outcome_of, parsed, taken

_PATIENCE = 0.2  # seconds that an earlier process gets to be gone: whoever asks all the time asks again soon

Answers = Callable[[], Mapping[str, Any]]


class Resident:
    """``open`` is called in the process once; what it returns is called for each question. ``lock`` is its alone."""

    def __init__(self, open: Callable[[], Answers], *, seconds: float, lock: str) -> None:
        self._open = open
        self._seconds = seconds
        self._lock = lock
        self._child: int | None = None
        self._channel: tuple[int, int] = (-1, -1)
        self._left: int | None = None

    def ask(self) -> dict[str, Any]:
        """An answer. Raises HungError after ``seconds``, or while an earlier process still hangs; NodeError."""
        if self._left is not None and os.waitpid(self._left, os.WNOHANG)[0]:
            self._left = None
        if self._child is None:
            self._start()
        reader, writer = self._channel
        try:
            os.write(writer, b"?")
            data = _line(reader, time.monotonic() + self._seconds)
        except BrokenPipeError:
            data = b""
        if data is None:
            raise no_answer(self._seconds, self.end())
        try:
            return parsed(data)
        except NodeError:
            self.end()  # the next question opens the driver again
            raise

    def end(self) -> int | None:
        """End the process. Returns its id where it cannot be ended."""
        if self._child is None:
            return None
        child, self._child = self._child, None
        for handle in self._channel:
            os.close(handle)
        os.kill(child, signal.SIGKILL)
        if not gone(child):
            self._left = child
        return self._left

    def _start(self) -> None:
        # guard: beside a process that hangs in the driver no second one is kept -> os.open('/dev/null', os.O_RDONLY)
        guard = taken(self._lock, time.monotonic() + _PATIENCE, self._seconds)
        questions, asking = os.pipe()
        reading, answers = os.pipe()
        child = forked()
        if child == 0:
            _serve(self._open, questions, answers, guard)
        for handle in (questions, answers, guard):
            os.close(handle)
        self._child, self._channel = child, (reading, asking)


def _serve(open: Callable[[], Answers], questions: int, answers: int, guard: int) -> None:
    """The process: it ends when nobody can ask it any more."""
    try:
        detach(questions, answers, guard)
        answer: list[Answers] = []

        def first() -> Mapping[str, Any]:
            if not answer:
                answer.append(open())
            return answer[0]()

        while os.read(questions, 1):
            data = memoryview(outcome_of(first) + b"\n")
            while data:
                data = data[os.write(answers, data) :]
    finally:
        os._exit(0)


def _line(reader: int, end: float) -> bytes | None:
    """What is written until the end of a line, or of all; None if that takes too long."""
    found = b""
    while not found.endswith(b"\n") and len(found) < MOST:
        ready, _, _ = select.select([reader], [], [], max(end - time.monotonic(), 0))
        if not ready:
            return None
        part = os.read(reader, 1 << 16)
        if not part:
            break
        found += part
    return found

"""Calls what may hang in the kernel for good, in a process apart with a deadline: once, or again and again (Resident).

A call into a GPU's driver can hang where no signal reaches it. Such a process is left behind: it has none of our
descriptors (or whoever reads our output would wait for it), and no second one starts while it exists.

As isolated_call.py, for whoever asks all the time: to open a driver takes long, to ask an open one milliseconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..detached import detach, forked
from ..errors import NodeError, in_words
from ..files import lock_directory, open_lock
from ..paths import RUN

LOCK = f"{RUN}/gpus.lock"
MOST = 4 << 20  # bytes of an answer
_PROCESSOR_SECONDS = 60
_END_SECONDS = 1.0  # that a process gets to be gone after it was killed, or has answered


class HungError(NodeError):
    """There was no answer in time. ``left``: the process that could not be ended, or None."""

    def __init__(self, message: str, left: int | None = None) -> None:
        super().__init__(message)
        self.left = left


def isolated_call(function: Callable[[], Mapping[str, Any]], *, seconds: float, lock: str = LOCK) -> dict[str, Any]:
    """What ``function`` returns, computed in a separate process and passed as JSON.

    Raises HungError after ``seconds``, or when an earlier one still hangs; NodeError with what it raised.
    """
    end = time.monotonic() + seconds
    guard = taken(lock, end, seconds)
    reader, writer = os.pipe()
    child = forked()
    if child == 0:
        _answer(function, writer, guard, seconds)
    os.close(writer)
    os.close(guard)
    try:
        data = _collected(reader, end)
    finally:
        os.close(reader)
    if data is None:
        os.kill(child, signal.SIGKILL)
        raise no_answer(seconds, None if gone(child) else child)
    gone(child)  # the driver may keep it for ever as it ends; do not wait for that
    return parsed(data)


def no_answer(seconds: float, left: int | None) -> HungError:
    """The error of a question that was given ``seconds``. ``left``: the process that could not be ended."""
    words = f"the GPU driver did not answer in {seconds:g} s"
    if left is not None:
        words += f", and process {left}, which asked it, cannot be ended: reboot the node"
    return HungError(words, left)


def taken(path: str, end: float, seconds: float) -> int:
    """The lock, as a descriptor that the process inherits: it holds it for as long as it is there."""
    lock_directory(os.path.dirname(path))
    handle = open_lock(path)
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: while a driver hangs it is not asked again
            return handle
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(handle)
                raise HungError(
                    f"an earlier question to the GPU driver has had no answer for {seconds:g} s: wait, or reboot"
                ) from None
            time.sleep(0.05)  # asked again: flock(2) that waits has no deadline


def encode_outcome(function: Callable[[], Mapping[str, Any]]) -> bytes:
    """What a function returns, or why it does not, as JSON."""
    try:
        outcome: dict[str, Any] = {"result": function()}
    except (NodeError, OSError) as error:
        outcome = {"error": in_words(error)}
    except Exception as error:  # whatever a driver's answer caused is this look's problem
        outcome = {"error": f"{type(error).__name__}: {error}"}
    return json.dumps(outcome).encode()


def _answer(function: Callable[[], Mapping[str, Any]], writer: int, guard: int, seconds: float) -> None:
    """The process: it ends itself, too, should nobody be there any more to end it."""
    try:
        detach(writer, guard)
        signal.alarm(int(seconds) + 2)
        resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS))
        with os.fdopen(writer, "wb") as stream:
            stream.write(encode_outcome(function))
    finally:
        os._exit(0)


def _collected(reader: int, end: float) -> bytes | None:
    """All that is written until the other end is closed; None if that takes too long."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(end - time.monotonic(), 0))
        if not ready:
            return None
        part = os.read(reader, 1 << 16)
        if not part or sum(map(len, parts)) > MOST:
            return b"".join(parts)
        parts.append(part)


def gone(child: int) -> bool:
    """Whether a child has ended, or does within a second."""
    end = time.monotonic() + _END_SECONDS
    while True:
        try:
            if os.waitpid(
                child,
                os.WNOHANG,  # guard: what hangs in a driver is not waited for -> 0
            )[0]:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.01)  # asked again: waitpid(2) that waits has no deadline


def parsed(data: bytes) -> dict[str, Any]:
    """What encode_outcome() made. Raises NodeError with what was raised there."""
    try:
        outcome = json.loads(data)
    except ValueError:
        raise NodeError("the process that asked the GPU driver ended without an answer") from None
    if "error" in outcome:
        raise NodeError(str(outcome["error"]))
    result: dict[str, Any] = outcome["result"]
    return result


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
            data = memoryview(encode_outcome(first) + b"\n")
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

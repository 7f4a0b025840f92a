"""Calls something that may hang in the kernel for good, in a separate process with a deadline.

A call into a GPU's driver can hang where no signal reaches it. Such a process is left behind: it has none of our
descriptors (or whoever reads our output would wait for it), and no second one starts while it exists.
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


def outcome_of(function: Callable[[], Mapping[str, Any]]) -> bytes:
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
            stream.write(outcome_of(function))
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
    """What outcome_of() made. Raises NodeError with what was raised there."""
    try:
        outcome = json.loads(data)
    except ValueError:
        raise NodeError("the process that asked the GPU driver ended without an answer") from None
    if "error" in outcome:
        raise NodeError(str(outcome["error"]))
    result: dict[str, Any] = outcome["result"]
    return result

"""Whether device files can be opened from within a unit: tried, since what systemd shows need not be in force."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence

NAME = "gpuadmin-proof"
PATIENCE = 5.0  # seconds for a trial: in a frozen cgroup it would not end
SPARED = "/proc/self/oom_score_adj"


def opens(cgroup: str, paths: Sequence[str], seconds: float = PATIENCE) -> list[str]:
    """Those of ``paths`` that a process of root's in this cgroup may open, to read or to write. Raises OSError where it
    cannot be tried, or not in so many seconds.

    access(2) asks the kernel the same question as open(2), of the same program of the cgroup's, and wakes no GPU. As
    root only the cgroup can say no. The process is in a cgroup of its own below, where nobody else can put one.
    """
    there = [path for path in paths if os.path.exists(path)]
    own = os.path.join(cgroup, NAME)
    try:
        os.mkdir(own, 0o700)
    except FileExistsError:
        pass  # a run that was killed left it
    try:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            try:
                _spare()
                os.write(os.open(os.path.join(own, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC), b"0")
                # guard: what can only be read, or only be written, is open -> all
                found = bytes(48 + any(os.access(path, way) for way in (os.R_OK, os.W_OK)) for path in there)
                os.write(writer, b"." + found)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb", buffering=0) as stream:
            try:
                answer = _answer(stream.fileno(), len(there) + 1, seconds)
            finally:
                os.kill(child, signal.SIGKILL)  # it has ended, or it hangs
                _reap(child)
    finally:
        try:
            os.rmdir(own)
        except OSError:
            pass  # the child is just leaving; the next proof uses it again
    if len(answer) != len(there) + 1:  # guard: what could not be tried is not closed
        raise OSError(0, f"no process could be put into {cgroup}")
    return [path for path, letter in zip(there, answer[1:]) if letter == 49]


def _spare() -> None:
    """Have the kernel end others: of a slice whose owner fills their memory with small processes, a trial would be the
    largest, and what was not tried counts as open."""
    try:
        # guard: nobody has a trial ended by using up their memory -> b"0"
        os.write(os.open(SPARED, os.O_WRONLY | os.O_CLOEXEC), b"-1000")
    except OSError:
        pass  # in a container root may not; it is tried all the same


def _answer(reader: int, length: int, seconds: float) -> bytes:
    """What a process has written until it ended, or until the time is over."""
    answer, end = b"", time.monotonic() + seconds
    while len(answer) < length:
        # guard: a trial that hangs holds up nobody -> None
        left = max(0.0, end - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            raise OSError(0, f"no answer in {seconds:.0f} s")
        data = os.read(reader, length)
        if not data:
            break
        answer += data
    return answer


def _reap(child: int) -> None:
    """Wait for a process that was killed, but not for one that the kernel does not let go."""
    end = time.monotonic() + 1.0
    while (
        os.waitpid(child, os.WNOHANG)[0] == 0
        and time.monotonic() < end  # guard: a process that the kernel does not let go holds up nobody
    ):
        time.sleep(0.001)  # waitpid(2) has no deadline

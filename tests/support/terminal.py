"""Somebody at a terminal, who types and sees."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Terminal:
    """The end of a terminal that a person sees, and the program at the other."""

    def __init__(self, handle: int, process: subprocess.Popen[bytes]) -> None:
        self._handle, self._process = handle, process
        self._seen = b""

    def sees(self, text: str, seconds: float = 300) -> None:
        """Wait until a text is to be read, after what was seen last."""
        end = time.monotonic() + seconds
        while text.encode() not in self._seen:
            assert time.monotonic() < end, f"no {text!r} at the terminal: {self._seen!r}"
            if select.select([self._handle], [], [], 1.0)[0]:
                try:
                    self._seen += os.read(self._handle, 4096)
                except OSError as error:  # the program has ended
                    raise AssertionError(f"no {text!r} at the terminal: {self._seen!r}") from error
        self._seen = self._seen.partition(text.encode())[2]

    def types(self, line: str) -> None:
        """Type a line."""
        os.write(self._handle, f"{line}\n".encode())

    def ends(self, seconds: float = 300) -> int:
        """Wait for the program's end; return its exit code."""
        end = time.monotonic() + seconds
        while self._process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self._seen!r}"
            if select.select([self._handle], [], [], 0.2)[0]:
                try:
                    self._seen += os.read(self._handle, 4096)
                except OSError:
                    break  # it has closed the terminal
        return self._process.wait(timeout=60)


@contextmanager
def at_terminal(command: Sequence[str]) -> Iterator[Terminal]:
    """Run a program at a terminal of its own; it is ended with the block."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 200))  # no sentence is broken
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=60)
        os.close(ours)

"""Running a program of the host: argv in, its output or its own message of failure out.

What else starts a process has a reason, which tests/contract/test_node_code.py lists: a pipe, a stream, a namespace.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

from .errors import NodeError

Finished = subprocess.CompletedProcess[str]
#: Seconds for a question about the host.
LOOKING = 120.0
#: systemd's own programs give up after 25 seconds (sd-bus); a host that is short of everything takes longer.
PATIENT = {"SYSTEMD_BUS_TIMEOUT": f"{LOOKING:.0f}"}
#: What run_command is; tests give another one.
Runner = Callable[[Sequence[str]], Finished]


class LateError(NodeError):
    """A program did not end in time and was killed. ``output``: what it had printed until then."""

    def __init__(self, seconds: float, output: str) -> None:
        super().__init__(f"no answer in {seconds:g} s")
        self.output = output


def run_command(
    command: Sequence[str],
    *,
    stdin: bytes | None = None,
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command to its end, whatever that is. Marks replace output that is not UTF-8.

    ``environment``: what is added to our own. Raises LateError after ``seconds``, OSError if there is no such program.
    """
    try:
        done = subprocess.run(
            tuple(command),
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            env={**os.environ, **PATIENT, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LateError(seconds or 0, _text(error.stdout or b"")) from None
    return subprocess.CompletedProcess(done.args, done.returncode, _text(done.stdout), _text(done.stderr))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def failure(command: Sequence[str], done: Finished, what: str | None = None, complaints: str = "") -> NodeError:
    """The error of a command that failed: its message, and how to run it again.

    ``what`` failed, in words. ``complaints``: how the lines begin that say why; by default that is the last line.
    """
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    quoted = [line for line in lines if "dmesg(1) may have" not in line]  # mount(8) ends with it, whatever it was
    wrong = [line for line in quoted if complaints and line.startswith(complaints)]
    why = "; ".join(wrong or quoted[-1:]) or f"status {done.returncode}"
    return NodeError(f"{what or 'a command failed'}: {why} (command: {shlex.join(command)})")


def run(
    command: Sequence[str],
    *,
    stdin: bytes | None = None,
    what: str | None = None,
    complaints: str = "",
    seconds: float | None = None,
) -> str:
    """Run a command and return its output. Raises NodeError with ``failure``'s words, also after ``seconds``."""
    try:
        done = run_command(command, stdin=stdin, seconds=seconds)
    except LateError as error:
        raise NodeError(f"{what or 'a command failed'}: {error} (command: {shlex.join(command)})") from None
    if done.returncode != 0:
        raise failure(command, done, what, complaints)
    return done.stdout


def look(command: Sequence[str]) -> Finished:
    """``run_command`` for a question about the host: raises LateError if no answer comes in time."""
    return run_command(command, seconds=LOOKING)


def run_apart(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, merged: bool = False
) -> Finished:
    """Run a command to its own end, whatever it leaves behind: a daemon would hold a pipe open for ever.

    Its output goes to files in memory. ``merged``: both streams are one, in the order in which they were written.
    """
    with ExitStack() as stack:

        def file(name: str) -> IO[bytes]:
            opened = stack.enter_context(os.fdopen(os.memfd_create(name), "w+b"))
            fcntl.fcntl(opened, fcntl.F_SETFL, os.O_APPEND)  # where a script opens /dev/stderr once more
            return opened

        output = file("output")
        errors = None if merged else file("errors")
        done = subprocess.run(
            tuple(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if errors is None else errors,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        texts = []
        for stream in (output, errors):
            if stream is not None:
                stream.seek(0)
                texts.append(_text(stream.read()))
        return subprocess.CompletedProcess(done.args, done.returncode, texts[0], "" if merged else texts[1])


def program(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A job (unit.py) that is one program: {"command": […], "environment": {…}} → {"status": …, "output": …}."""
    done = run_apart(arguments["command"], environment=arguments.get("environment"), merged=True)
    return {"status": done.returncode, "output": done.stdout}

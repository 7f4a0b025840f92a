"""Runs commands: the one place where the lab starts a process and waits for it."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from gpuadmin.common.text import the_page
from gpuadmin.errors import GpuadminError
from gpuadmin.lab.paths import cache_directory, state_directory
from gpuadmin.lab.programs import PACKAGES, missing_tools, search_path

Command = tuple[str, ...]
_FULL = os.strerror(errno.ENOSPC)
_ROOM = 16 << 20  # bytes; whoever writes in blocks leaves a few


def require_linux() -> None:
    """Raise GpuadminError on another system, where nothing of a lab runs."""
    if platform.system() != "Linux":
        raise GpuadminError(
            "the lab needs Linux: it makes and runs its hosts with what only Linux has",
            hint=f"run this on a machine with Linux, or in a virtual machine with it; {the_page('lab')}",
        )


def require(*tools: str) -> None:
    """Given tool names, raise an error that names the packages of those that are missing."""
    if lacking := missing_tools(tools):
        raise missing_error(lacking)


def missing_error(lacking: Sequence[str]) -> GpuadminError:
    """Given tools that this machine lacks, return the error that says how to get them."""
    return GpuadminError(
        f"the lab needs {', '.join(lacking)}, which this machine does not have",
        hint=f"apt install {' '.join(dict.fromkeys(PACKAGES[tool] for tool in lacking))} (Debian, Ubuntu)",
    )


def pasteable(command: Sequence[str]) -> str:
    """Given a command, return it so that it can be pasted into a shell."""
    return shlex.join(command)


def run(
    command: Sequence[str], *, log: Path | None = None, cwd: Path | None = None, timeout: float | None = None
) -> str:
    """Run a command and return its output, errors included.

    With `log`, that goes to the end of that file instead, and the result is empty. Raises GpuadminError with the
    command and the end of its output if it fails or exceeds `timeout` (seconds).
    """
    environment = {**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8"}
    with log.open("ab") if log else tempfile.TemporaryFile() as sink:
        begin = sink.tell()
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        except FileNotFoundError as error:
            if command[0] in PACKAGES:
                raise missing_error([command[0]]) from error
            raise GpuadminError(f"cannot run {command[0]}: not found") from error
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise GpuadminError(f"took longer than {timeout:.0f} s: {pasteable(command)}") from error
        finally:
            _end_command(process)
        output = "" if log else _read_output(sink, begin)
    if status != 0:
        full = [line.strip() for line in (tail(log, 50) if log else output).splitlines() if _FULL in line]
        if full or (full := _find_full()):
            raise GpuadminError(
                f"a disk of this machine is full: {full[-1][:300]}",
                hint="make room; the same again goes on from there",
            )
        if log:
            last = tail(log)
            with log.open("a") as stream:  # some commands take pages
                stream.write(f"This command failed with status {status}:\n  {pasteable(command)}\n")
            raise GpuadminError(f"{command[0]} failed with status {status}:\n{last}\n(all of it: {log})")
        raise GpuadminError(
            f"this command failed with status {status}:\n  {pasteable(command)}\n{output.strip()[-2000:]}"
        )
    return output


def _find_full() -> list[str]:
    """Places of the lab's without room: on a disk image that fails in other words, such as that a file is corrupt."""
    places = [cache_directory(), state_directory(), Path(tempfile.gettempdir())]
    return [f"{one} has no room" for one in places if one.exists() and shutil.disk_usage(one).free < _ROOM]


def _read_output(file: IO[bytes], begin: int) -> str:
    file.seek(begin)
    return file.read().decode(errors="replace")


def _end_command(process: subprocess.Popen[bytes], limit: float = 20.0) -> None:
    """End a command that still runs, and let it clean up: mmdebstrap has things mounted."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(path: Path, lines: int = 15) -> str:
    """Given a text file, return its last lines, or nothing if it cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])

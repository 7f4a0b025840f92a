"""Running a program of the host: argv in, what it printed or its own words of failure out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from .errors import NodeError

#: What run_command is; tests give another one.
Runner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(tuple(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def run(command: Sequence[str], *, stdin: bytes | None = None, what: str | None = None, complaints: str = "") -> str:
    """Run a command and return its output. Raises NodeError with what it said and how to run it again.

    ``complaints``: how the lines begin that say what is wrong; by default that is the last line.
    """
    done = subprocess.run(
        tuple(command),
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        said = [line for line in lines if "dmesg(1) may have" not in line]  # mount(8) ends with it, whatever it was
        wrong = [line for line in said if complaints and line.startswith(complaints)]
        why = "; ".join(wrong or said[-1:]) or f"status {done.returncode}"
        raise NodeError(f"{what or 'a command failed'}: {why} (command: {' '.join(command)})")
    return done.stdout.decode("utf-8", "replace")

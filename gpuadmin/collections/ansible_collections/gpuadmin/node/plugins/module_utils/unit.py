"""Units of systemd: their state, their journal, and commands that are started as transient ones.

systemd that is replaced or starved is asked again: silence is neither yes nor no.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence

from .errors import NodeError
from .run import Runner, failure, run_command

PATIENCE = 10.0  # seconds; one that has just ended keeps its name for a moment
#: Seconds. systemd that is being replaced answers soon; one that is starved (packages are unpacked on a slow disk) lets
#: more than one question go by.
SILENCE = 300.0
POLL = 0.3
LATE = "timed out"  # what systemctl and systemd-run print about such silence
UP = ("active", "reloading")
WORKING = (*UP, "activating", "deactivating")
#: A long job must not slow down what people do on the host.
BACKGROUND = ("Nice=10", "IOSchedulingClass=idle")


def available() -> bool:
    """Whether this host runs systemd (sd_booted(3))."""
    return os.path.isdir("/run/systemd/system")


def unit_name(name: str) -> str:
    return f"gpuadmin-{name}.service"


def state(unit: str, run: Runner = run_command) -> str:
    """A unit's ActiveState; inactive also if there is none of the name, or no systemd.

    systemd that does not answer is asked again, since it may just be replaced (daemon-reexec) or starved. Raises
    NodeError after SILENCE.
    """
    command = ("systemctl", "show", "--property=ActiveState", "--value", unit)
    end = time.monotonic() + SILENCE
    while True:
        done = run(command)
        if done.returncode == 0:  # guard: systemd that does not answer has not ended the unit -> True
            return done.stdout.strip()
        if not available():
            return "inactive"
        if time.monotonic() > end:
            raise failure(command, done, f"it is not known whether {unit} works")
        time.sleep(POLL)  # between two questions to systemd


def working(unit: str, run: Runner = run_command) -> bool:
    """Whether a unit has begun and has not ended."""
    return state(unit, run) in WORKING


def journal(unit: str, lines: int, run: Runner = run_command) -> str:
    """The last lines that a unit, and systemd about it, wrote."""
    command = ("journalctl", "--no-pager", "--quiet", f"--lines={lines}", "--output=cat", f"--unit={unit}")
    return run(command).stdout.strip()


def logged(matches: Sequence[str], lines: int, *, since: str, run: Runner = run_command) -> str:
    """The last lines of the journal that match (journalctl(1)), with their times. Raises NodeError."""
    command = ("journalctl", "--no-pager", "--quiet", "--output=short-iso", f"--since={since}", f"--lines={lines}")
    done = run((*command, *matches))
    if done.returncode != 0 and done.stderr.strip():  # 1 without a word: there is no such line
        raise failure(command, done, "the journal cannot be read")
    return done.stdout.strip()


def start_command(
    unit: str, command: Sequence[str], description: str, properties: Sequence[str] = (), *, attached: bool = False
) -> tuple[str, ...]:
    """The command that starts another as a unit that leaves nothing behind.

    ``attached``: it has our input and output, and the caller waits for it; its status is then that of the command.
    """
    return (
        "systemd-run", f"--unit={unit}", "--collect", "--quiet", f"--description={description}",
        *(("--pipe", "--wait") if attached else ()),
        *(f"--property={one}" for one in properties), "--", *command,
    )  # fmt: skip


def start(
    unit: str,
    command: Sequence[str],
    description: str,
    properties: Sequence[str] = (),
    *,
    run: Runner = run_command,
    patience: float = PATIENCE,
) -> None:
    """Start a command as a unit. Raises NodeError with systemd's message.

    ``patience``: seconds to wait for the name to be free. Where systemd did not answer in time, it is asked whether the
    unit works; one that does not is begun again.
    """
    arguments = start_command(unit, command, description, properties)
    end, silence = time.monotonic() + patience, time.monotonic() + SILENCE
    while True:
        run(("systemctl", "reset-failed", unit))
        done = run(arguments)
        if done.returncode == 0:
            return
        reason = done.stderr.strip() or f"status {done.returncode}"
        if LATE in reason and time.monotonic() < silence:
            if working(unit, run):
                return
            continue
        if "already loaded" not in reason or time.monotonic() > end:
            raise NodeError(f"{unit} could not be started: {reason} (command: {shlex.join(arguments)})")
        time.sleep(POLL)  # between two questions to systemd


def stop(unit: str, run: Runner = run_command) -> None:
    """Stop a unit, if there is one, and wait until it has ended. Raises NodeError if it goes on."""
    done = run(("systemctl", "stop", unit))
    if done.returncode not in (0, 5) and state(unit, run) in UP:  # 5: no such unit
        raise NodeError(f"{unit} does not stop: {done.stderr.strip()}")

"""A session of a person's, tried: PAM, shells, a file in the home, a process, Docker's socket, within seconds.

root starts a transient unit with the person's name and sshd's rules of PAM, and gives it the text of ``trying.py``.
Everything there is the person's, and hostile: their shell and its files, their daemon. Nothing of root's waits for it
beyond SECONDS; memory, processes and what it says have bounds; at the end all that it left in its session is killed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..bounded import read_small, short
from ..cgroups import cgroup_path
from ..errors import NodeError
from ..run import run_command
from ..ship import read_module_source
from ..unit import UP, journal, start_command, unit_name
from . import trying
from .account import find_entry
from .gpus import PEOPLE
from .sessions import CGROUP, cgroup_alive
from .subject import Subject

SECONDS = 9.0  # of the whole trial
CLEANING = 2.0  # seconds for one question to systemd, and for what is killed to be gone
LONGEST = SECONDS + 3 * CLEANING  # then what asks is ended itself; systemd ends the unit
MOST = 65536  # bytes that are read of what it says
MEMORY, TASKS = 1 << 30, 256  # of all that runs in the session
STEPS = ("home", "tmp", "process", "command", "login", "docker")
PYTHON = "/usr/bin/python3"
_CODE = re.compile(r"[A-Z][A-Z0-9]{1,15}|late|ended|silent|noise|")
_OPENED = re.compile(r": session (?:opened|closed) for user")
#: The name that logind gives a session's scope, in its owner's slice.
_SCOPE = re.compile(r"/user\.slice/user-(\d{1,10})\.slice/(session-[a-z]?\d{1,10}\.scope)")


def trial(subject: Subject) -> dict[str, Any]:
    """``steps``: the outcome of each step (``code`` "": fine). ``pam``: why there was no session at all, or None.

    ``done``: it came to its end; ``late``: it ran out of time. ``processes``: how many of theirs may run, by the
    kernel; None: no limit. Raises NodeError if nobody can be tried as this person, OSError if the homes do not answer.
    """
    entry = find_entry(subject, subject.name or "")
    if (
        entry is None
        or entry.pw_uid < PEOPLE  # guard: no account of the system's is tried
        or subject.uid not in (None, entry.pw_uid)  # guard: nobody but the person is tried
    ):
        raise NodeError("nobody has this name and uid here")
    if not any(os.path.exists(subject.path(f"{directory}/sshd")) for directory in ("etc/pam.d", "usr/lib/pam.d")):
        raise NodeError("PAM has no rules for sshd")  # it would take those for `other`, which let nobody in
    os.stat(os.path.join(subject.homes, "."))  # if it hangs, this process hangs, and none of theirs starts
    uid = entry.pw_uid
    running = subject.docker is not None and cgroup_alive(uid, "docker.service", subject.path(CGROUP))
    socket = f"/run/user/{uid}/docker.sock" if running else None
    asked = {"home": entry.pw_dir, "shell": entry.pw_shell or "/bin/sh", "docker": socket}
    with _begin(subject.own, entry.pw_name, uid) as (process, unit):
        return run_steps(process, unit, uid, asked)


def list_properties(name: str, manager: bool) -> tuple[str, ...]:
    """The unit's properties: who owns it, its rules, and its bounds. ``manager``: whether their user manager runs.

    Where it does not, none is begun (pam_systemd(8)): with it would begin what they enabled, Docker and containers.
    """
    kind = "background" if manager else "background-light"
    return (
        f"User={name}", "PAMName=sshd", "Type=exec", f"Environment=XDG_SESSION_CLASS={kind}",
        f"TimeoutStartSec={SECONDS:g}", f"RuntimeMaxSec={SECONDS:g}", f"TimeoutStopSec={CLEANING:g}",
        "KillSignal=SIGKILL", "LimitCORE=0", f"MemoryMax={MEMORY}", f"TasksMax={TASKS}",
    )  # fmt: skip


@contextmanager
def _begin(own: bool, name: str, uid: int) -> Iterator[tuple[Any, str | None]]:
    """Start the process that runs the trial, and name its unit; in the caller's own session there is no unit."""
    unit = None if own else unit_name(f"trial-{uid}-{secrets.token_hex(4)}")
    line: Sequence[str] = (PYTHON, "-I", "-S", "-c", read_module_source(trying))
    if unit is not None:
        bounds = list_properties(name, _is_manager_running(uid))
        line = start_command(unit, line, f"gpuadmin diagnose {name}", bounds, attached=True)
    process = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=own
    )
    try:
        yield process, unit
    finally:
        if unit is not None:
            _run_quietly("systemctl", "kill", "--signal=KILL", unit)
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(CLEANING)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def _is_manager_running(uid: int) -> bool:
    """Whether a person's user manager runs."""
    command = ("systemctl", "is-active", f"user@{uid}.service")
    return _run_quietly(*command).strip() in UP


def _run_quietly(*command: str) -> str:
    with suppress(NodeError, OSError):
        return run_command(command, seconds=CLEANING).stdout
    return ""


def run_steps(process: Any, unit: str | None, uid: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Speak with a process that runs ``trying.py``, in a unit or in none, and return the outcome of its steps."""
    found: dict[str, Any] = {"steps": {}, "pam": None, "late": False, "done": False, "processes": None}
    scope = None
    end = time.monotonic() + SECONDS
    try:
        for line in read_lines(process.stdout.fileno(), end):
            step = parse_step(line)
            if step is None:
                continue
            name, answer = step
            if name == "done":
                found["done"] = True
                return found
            if name == "begun" and not found.get("begun"):
                found["begun"] = True
                if unit is not None:
                    scope, found["processes"] = _bound_scope(unit, uid)
                process.stdin.write(json.dumps(asked).encode() + b"\n")
                process.stdin.flush()
            elif answer is not None:
                found["steps"].setdefault(name, answer)
    except BrokenPipeError:
        pass  # it has ended: what it said until then is there
    finally:
        began = found.pop("begun", False)
        if scope is not None:
            _run_quietly("systemctl", "kill", "--signal=KILL", scope)
    found["late"] = time.monotonic() >= end
    if not began and not found["late"]:
        found["pam"] = _find_refusal(process, unit)
    return found


def read_lines(descriptor: int, end: float) -> Iterator[bytes]:
    """Whole lines until they end, MOST bytes were read, or the time is up."""
    rest, read = b"", 0
    while read < MOST:  # guard: what a session prints has a bound -> True
        left = end - time.monotonic()
        # guard: a session that goes on is not waited for -> not select.select([descriptor], [], [], 3600)[0]
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return
        part = os.read(descriptor, 4096)
        if not part:
            return
        read += len(part)
        *whole, rest = (rest + part).split(b"\n")
        yield from whole


def parse_step(line: bytes) -> tuple[str, dict[str, Any] | None] | None:
    """Given a line, return its step and the outcome; None for any other line. The person may have written it."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name, code = (answer.get("step"), answer.get("code")) if isinstance(answer, dict) else (None, None)
    if name in ("begun", "done"):
        return str(name), None
    # guard: what a session says has a form -> name not in STEPS
    if name not in STEPS or not isinstance(code, str) or not _CODE.fullmatch(code):
        return None
    return str(name), {"code": code, "words": short(answer.get("words") or "", 200)}


def _bound_scope(unit: str, uid: int) -> tuple[str | None, int | None]:
    """The scope that logind has put the session into, with bounds set, and how many processes may run there."""
    pid = _run_quietly("systemctl", "show", "--property=MainPID", "--value", unit).strip()
    if not pid.isdecimal() or pid == "0":
        return None, None
    with suppress(OSError, NodeError):
        path = cgroup_path(_read_kernel_file(f"/proc/{pid}/cgroup")) or "/"
        scope = find_scope(path, uid)
        for name, most in (("memory.max", MEMORY), ("pids.max", TASKS)) if scope is not None else ():
            with suppress(OSError), open(f"/{CGROUP}{path}/{name}", "w", encoding="ascii") as stream:
                stream.write(str(most))  # a kernel that does not bound it has no such file
        return scope, parse_process_limit(_read_kernel_file(f"/proc/{pid}/limits"))
    return None, None


def _read_kernel_file(path: str) -> str:
    return read_small(path).decode("ascii", "replace")


def find_scope(path: str, uid: int) -> str | None:
    """The scope of a session of this person's that a cgroup is; None for any other cgroup."""
    found = _SCOPE.fullmatch(path)
    return (
        found.group(2)
        if found
        # guard: only a person's scope is killed
        and int(found.group(1)) == uid
        else None
    )


def parse_process_limit(text: str) -> int | None:
    """Given the text of a /proc/PID/limits, return how many processes its user may run; None: no limit."""
    found = re.search(r"^Max processes +(\d+) ", text, re.MULTILINE)
    return int(found.group(1)) if found else None


def _find_refusal(process: Any, unit: str | None) -> str:
    """The reason why there was no session: PAM's words, as systemd has them in its journal."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(CLEANING)
    status = process.returncode
    text = journal(unit, 20, lambda line: run_command(line, seconds=CLEANING)) if unit is not None else ""
    return short("; ".join(pick_refusals(text)[:2]) or f"no session begins (status {status})")


def pick_refusals(text: str) -> list[str]:
    """Given the journal of a session that did not begin, return the lines that say why.

    That PAM opened it first is not a reason: the failure came after it.
    """
    return [
        line for line in text.splitlines()
        if ("PAM" in line or "pam_" in line or "Failed at step" in line) and not _OPENED.search(line)
    ]  # fmt: skip

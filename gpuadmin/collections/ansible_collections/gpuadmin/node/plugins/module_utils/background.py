"""Jobs in transient units of systemd: they go on when the controller is killed, and the next run finds them.

A job is a function of this package and its arguments. Its request, its result and how far it is are files in
BASE/jobs/NAME, beside the code, which is shipped there. Each start has an id, which its result bears: only whoever
began it, or saw it run, takes that result for theirs (docs/decisions/0038-outcomes-of-jobs.md).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import secrets
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from .documents import parse, to_plain
from .errors import NodeError, in_words
from .files import flocked, read_bytes, write_atomic
from .paths import RUN
from .run import Runner, run_command
from .ship import ship_package
from .unit import BACKGROUND, POLL, available, journal, start, unit_name, working

REQUEST, RESULT, PROGRESS = "request.json", "result.json", "progress"
FORMAT = 2  # of request and result; jobs of another version are not ours
JobFunction = Callable[[Any], object]


@dataclass(frozen=True)
class Job:
    """A function of this package and its order, a record or what JSON can hold, for the unit gpuadmin-NAME.

    ``title``: what it is, in words. ``same``: what two requests must have in common to be the same job; by default
    the whole order. ``properties``: of the unit (systemd.exec(5)).
    """

    name: str
    function: JobFunction
    order: Any
    title: str
    same: Mapping[str, Any] | None = None
    properties: Sequence[str] = BACKGROUND
    base: str = RUN
    run: Runner = run_command

    @property
    def unit(self) -> str:
        return unit_name(self.name)

    @property
    def place(self) -> str:
        return _place(self.name, self.base)

    @property
    def module(self) -> str:
        """The module of the function, from this package on where it is in it."""
        return self.function.__module__.replace(f"{__package__}.", "", 1)

    @property
    def identity(self) -> str:
        same = self.order if self.same is None else self.same
        text = json.dumps([self.module, self.function.__name__, same], sort_keys=True, default=vars)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """What a job returned, or what went wrong."""

    value: Any
    problem: str | None = None


def _place(name: str, base: str) -> str:
    return os.path.join(base, "jobs", name)


def perform(
    name: str,
    function: JobFunction,
    order: Any,
    *,
    properties: Sequence[str] = BACKGROUND,
    run: Runner = run_command,
    wait: float | None = None,
    systemd: bool | None = None,
    base: str = RUN,
    start: str = "",
) -> Any:
    """Have ``function(order)`` done in the unit gpuadmin-NAME, and return what it returns.

    If one with the same order is running, it waits for that one. One that has ended is not an answer, even if
    nobody has asked for its result: what it saw may no longer hold. Raises NodeError with what went wrong, if another
    one is running, or when ``wait`` seconds are over (the job goes on). ``start``: the id of a start, for `said`.
    """
    if not (available() if systemd is None else systemd):
        return to_plain(function(order))
    job = Job(name, function, order, name, properties=properties, run=run, base=base)
    # guard: a job is looked for and begun under one lock
    with flocked(job.place + ".lock"):  # two at once: one of them begins it, the other finds it
        begun = (
            _current_start(job)
            # guard: what ended before begins again -> _read(job.place, RESULT).get("start") or _begin(job, "x")
            or _begin(job, start or secrets.token_hex(16))
        )
    if not _ended(job, wait):
        raise NodeError(f"{job.unit} is still working; run this again to wait for it")
    result = _result(job.place, begun)
    if result is None:
        raise NodeError(f"{job.unit} ended without an answer: {journal(job.unit, 3, run)}")
    return _value(result)


def said(name: str, start: str, *, run: Runner = run_command, base: str = RUN) -> Any:
    """What the start of that id returned, once it has ended; None: there was none. Raises NodeError if it failed.

    Ansible asks once more where ssh broke while a job was at work, or after it; what it did is in its own way by then.
    """
    place = _place(name, base)
    if not start or _read(place, REQUEST).get("start") != start:
        return None
    while working(unit_name(name), run):
        time.sleep(POLL)  # between two questions to systemd
    found = _result(place, start)
    return None if found is None else _value(found)


def _value(result: Result) -> Any:
    if result.problem is not None:
        raise NodeError(result.problem)
    return result.value


def attend(job: Job, begun: str, wait: float) -> Result | None:
    """Have a job done by a start of the id ``begun``; None if it has not ended after some ``wait`` seconds.

    The id is the same in every call of one run, so that the job is begun once. One that an earlier run began for the
    same purpose is waited for; what it did is then found done. Raises NodeError when another job runs, or when the unit
    ended without a result.
    """
    found = _result(job.place, begun)
    if found is not None:
        return found
    with flocked(job.place + ".lock"):  # guard: a job is begun once under one lock
        if _current_start(job) is None:
            found = _result(job.place, begun)  # it may have ended since
            if found is not None:
                return found
            # guard: work that was killed is not begun again by itself
            if _read(job.place, REQUEST).get("start") == begun:
                raise NodeError(f"the job was ended from outside (journalctl -u {job.unit} tells more); run it again")
            _begin(job, begun)
    _ended(job, wait)
    return _result(job.place, begun)


def progress(job: Job) -> str:
    """How far a job says that it is."""
    return (read_bytes(os.path.join(job.place, PROGRESS)) or b"").decode("utf-8", "replace").strip()


def progress_writer(name: str, base: str = RUN) -> Callable[[str], None]:
    """What a job calls to say how far it is."""
    path = os.path.join(_place(name, base), PROGRESS)

    def write(text: str) -> None:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # where the job is done without its unit
        write_atomic(path, f"{text}\n".encode(), mode=0o600, sync=False)

    return write


def _read(place: str, name: str) -> dict[str, Any]:
    """A request or a result; empty if there is none, or only one of another version."""
    try:
        found = json.loads(read_bytes(os.path.join(place, name)) or b"{}")
    except ValueError:
        return {}
    return (
        found
        if isinstance(found, dict)
        and found.get("format") == FORMAT  # guard: a job of another version is not taken for ours
        else {}
    )


def _write(place: str, name: str, value: Mapping[str, Any]) -> None:
    write_atomic(
        os.path.join(place, name),
        json.dumps({"format": FORMAT, **value}, default=vars).encode(),
        mode=0o600,  # guard: what a job is asked and says is root's alone -> 0o644
        sync=False,
    )


def _current_start(job: Job) -> str | None:
    """The id of the start that does this very job now; None if nothing does. Raises NodeError for another job."""
    if not working(job.unit, job.run):
        return None
    request = _read(job.place, REQUEST)
    # guard: other work in the unit is not waited for as if it were ours -> not request
    if request.get("identity") != job.identity:
        title = f" ({request['title']})" if request else ""
        raise NodeError(
            f"{job.unit} still runs another job{title}; wait for it (systemctl status {job.unit}) "
            f"or stop it (systemctl stop {job.unit}), then run this again"
        )
    return str(request["start"])


def _begin(job: Job, begun: str) -> str:
    """Start the unit. The last result stays for whoever has not asked for it yet, nothing else of an earlier start."""
    os.makedirs(
        job.place,
        mode=0o700,  # guard: a job's directory is root's alone
        exist_ok=True,
    )
    for entry in os.scandir(job.place):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != RESULT:
            os.unlink(entry.path)
    ship_package(job.place)
    request = {
        "start": begun, "identity": job.identity, "title": job.title,
        "module": job.function.__module__, "work": job.function.__name__, "order": job.order,
        "record": [type(job.order).__module__, type(job.order).__name__] if is_dataclass(job.order) else None,
    }  # fmt: skip
    _write(job.place, REQUEST, request)
    start(job.unit, command(job.place), f"gpuadmin: {job.title}", job.properties, run=job.run)
    return begun


def command(place: str) -> tuple[str, ...]:
    """What the unit of a job runs."""
    code = f"import sys; sys.path.insert(0, {place!r}); from {__package__}.background import main; sys.exit(main())"
    return (sys.executable or "/usr/bin/python3", "-I", "-B", "-c", code, place)


def _ended(job: Job, wait: float | None) -> bool:
    """Wait until the unit has ended, some ``wait`` seconds at most. Returns whether it has."""
    deadline = None if wait is None else time.monotonic() + wait
    while working(job.unit, job.run):
        if deadline is not None and time.monotonic() > deadline:
            return False
        time.sleep(POLL)  # between two questions to systemd
    return True


def _result(place: str, begun: str) -> Result | None:
    """The result of the start of that id. What another start left, earlier or later, is not it."""
    found = _read(place, RESULT)
    if found.get("start") == begun:  # guard: a result is of the start that was waited for -> found
        return Result(found.get("value"), found.get("problem"))
    return None


def _find(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def main(arguments: list[str] | None = None) -> int:
    """What the unit runs: the job of a directory. Its result is in it then, a failure too."""
    place = (sys.argv[1:] if arguments is None else arguments)[-1]
    request = _read(place, REQUEST)
    value, problem = None, None
    try:
        order = request["order"]
        if request.get("record"):
            order = parse(_find(*request["record"]), order, "order")
        value = _find(request["module"], request["work"])(order)
    except NodeError as error:
        problem = str(error)
    except Exception as error:  # whatever it is, the run that waits must hear of it
        traceback.print_exc()
        problem = in_words(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    if problem is not None:
        print(f"Error: {problem}", file=sys.stderr)
    _write(place, RESULT, {"start": request.get("start"), "value": value, "problem": problem})
    return 0 if problem is None else 1

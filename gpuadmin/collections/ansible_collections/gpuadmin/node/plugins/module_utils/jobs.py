"""Long work in a unit of its own: it goes on when the controller is killed, and the next run finds it and waits for it.

The code is written to /run, so that the work does not depend on what is installed on the host. A job is a function of
this package, by its module and name, and its arguments. Each start has an id of its own, which its outcome bears: only
whoever began it, or saw it at work, takes that outcome for theirs.
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
from collections.abc import Callable, Mapping

from .errors import NodeError
from .files import flocked, read_bytes, write_atomic
from .run import Runner, run_command

RUN = "/run/gpuadmin"
NEW, TAKEN = "outcome.json", "outcome.taken.json"
Work = Callable[[Mapping[str, object]], object]


def ship(module: object, path: str) -> None:
    """Write the source of a module that stands alone to ``path``, wherever it was loaded from (zip or file)."""
    spec = getattr(module, "__spec__", None)
    source = spec.loader.get_source(spec.name) if spec is not None and spec.loader is not None else None
    if not source:
        raise NodeError(f"the source of {module!r} cannot be found")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomic(path, source.encode(), mode=0o644, sync=False)


def unit_name(name: str) -> str:
    return f"gpuadmin-{name}.service"


def _identity(work: str, arguments: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps([work, arguments], sort_keys=True).encode()).hexdigest()[:16]


def ship_package(directory: str) -> None:
    """Write all of this package that is loaded to ``directory``/gpuadmin_node."""
    package = __name__.rpartition(".")[0]
    target = os.path.join(directory, "gpuadmin_node")
    os.makedirs(target, mode=0o755, exist_ok=True)
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(package + "."):
            continue
        place = os.path.join(target, *name[len(package) + 1 :].split("."))
        if hasattr(module, "__path__"):  # a package; Ansible makes those that a module does not bring along
            os.makedirs(place, mode=0o755, exist_ok=True)
            write_atomic(os.path.join(place, "__init__.py"), b"", mode=0o644, sync=False)
        else:
            ship(module, place + ".py")
    write_atomic(os.path.join(target, "__init__.py"), b"", mode=0o644, sync=False)


def command(name: str, place: str) -> tuple[str, ...]:
    """The command that starts a job in its unit."""
    start = f"import sys; sys.path.insert(0, {place!r}); from gpuadmin_node.jobs import main; sys.exit(main())"
    return (
        "systemd-run", f"--unit={unit_name(name)}", "--quiet", f"--description=gpuadmin: {name}",
        "--property=Nice=10", "--property=IOSchedulingClass=idle", "--property=RemainAfterExit=no", "--",
        sys.executable or "/usr/bin/python3", "-I", "-B", "-c", start, place,
    )  # fmt: skip


def _outcome(place: str, start: str) -> dict[str, object] | None:
    """What the job said that was begun by the start of that id. What another one said, earlier or later, is not it."""
    for name in (NEW, TAKEN):
        data = read_bytes(os.path.join(place, name))
        if data is not None:
            found: dict[str, object] = json.loads(data)
            if found.get("start") == start:
                return found
    return None


def perform(
    name: str,
    work: Work,
    arguments: Mapping[str, object],
    *,
    run: Runner = run_command,
    wait: float | None = None,
    systemd: bool | None = None,
    base: str = RUN,
) -> object:
    """Have ``work(arguments)`` done in the unit gpuadmin-NAME, and return what it returns.

    One of the same arguments that is at it now is waited for. One that has ended is no answer, also where nobody has
    asked for what it said: what it saw may not be so any more. Raises NodeError with what went wrong, when another one
    is at it, or when ``wait`` seconds are over (the work goes on).
    """
    if not (os.path.isdir("/run/systemd/system") if systemd is None else systemd):
        return work(arguments)
    place, unit = os.path.join(base, "jobs", name), unit_name(name)
    with flocked(place + ".lock"):  # two at once: one of them begins it, the other one finds it
        start = _attach(name, work, arguments, place, run)
    deadline = None if wait is None else time.monotonic() + wait
    while _active(unit, run):
        if deadline is not None and time.monotonic() > deadline:
            raise NodeError(f"{unit} is still working; run this again to wait for it")
        time.sleep(0.3)
    outcome = _outcome(place, start)
    if outcome is None:
        log = run(("journalctl", "--no-pager", "--quiet", "--lines=3", "--output=cat", f"--unit={unit}")).stdout
        run(("systemctl", "reset-failed", unit))
        raise NodeError(f"{unit} ended without a word: {log.strip()}")
    try:
        os.rename(os.path.join(place, NEW), os.path.join(place, TAKEN))
    except FileNotFoundError:
        pass  # where two waited for the same, the other one has taken it already
    if "problem" in outcome:
        raise NodeError(str(outcome["problem"]))
    return outcome["result"]


def _attach(name: str, work: Work, arguments: Mapping[str, object], place: str, run: Runner) -> str:
    """The id of the start whose outcome is to be waited for: of the one that is at it, or of a new one."""
    mark = (read_bytes(os.path.join(place, "identity")) or b"").decode()
    identity, _, start = mark.partition(" ")
    if not _active(unit_name(name), run):
        return _start(name, work, arguments, place, run)
    if identity != _identity(work.__name__, arguments) or not start:
        unit = unit_name(name)
        raise NodeError(f"{unit} is still at other work; wait for it (systemctl status {unit}), then run this again")
    return start


def _active(unit: str, run: Runner) -> bool:
    state = run(("systemctl", "show", "--property=ActiveState", "--value", unit)).stdout.strip()
    return state in ("active", "activating", "deactivating", "reloading")


def _start(name: str, work: Work, arguments: Mapping[str, object], place: str, run: Runner) -> str:
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place, mode=0o700)
    ship_package(place)
    start = secrets.token_hex(16)
    module = work.__module__[len(__package__ or "") + 1 :]
    job = {"module": module, "work": work.__name__, "arguments": arguments, "start": start}
    document = json.dumps(job).encode()
    write_atomic(os.path.join(place, "job.json"), document, mode=0o600, sync=False)
    mark = f"{_identity(work.__name__, arguments)} {start}"
    write_atomic(os.path.join(place, "identity"), mark.encode(), mode=0o600, sync=False)
    run(("systemctl", "reset-failed", unit_name(name)))
    result = run(command(name, place))
    if result.returncode != 0:
        raise NodeError(f"'{' '.join(command(name, place)[:3])} …' failed: {result.stderr.strip()}")
    return start


def main(arguments: list[str] | None = None) -> int:
    """What the unit runs: the job of a directory. Its outcome lies there then, a failure too; the unit succeeds."""
    place = (sys.argv[1:] if arguments is None else arguments)[-1]
    job = json.loads(read_bytes(os.path.join(place, "job.json")) or b"{}")
    outcome: dict[str, object]
    try:
        work = getattr(importlib.import_module(f"{__package__}.{job['module']}"), job["work"])
        outcome = {"result": work(job["arguments"])}
    except NodeError as error:
        outcome = {"problem": str(error)}
    except Exception as error:  # whatever it is, the run that waits must hear of it
        traceback.print_exc()
        outcome = {"problem": f"{type(error).__name__}: {error}"}
    outcome["start"] = job.get("start")
    write_atomic(os.path.join(place, NEW), json.dumps(outcome).encode(), mode=0o600)
    return 0

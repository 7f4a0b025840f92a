"""Long work in a unit of its own: it goes on when the controller is killed, and the next run finds it and waits for it.

The code is written to /run, so that the work does not depend on what is installed on the host. A job is a function of
this package, by its module and name, and its arguments; its outcome lies beside it until somebody has taken it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping

from .errors import NodeError
from .files import read_bytes, write_atomic
from .session import Runner, run_command, ship

RUN = "/run/gpuadmin"
NEW, TAKEN = "outcome.json", "outcome.taken.json"
Work = Callable[[Mapping[str, object]], object]


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
        if name.startswith(package + ".") and name.count(".") == package.count(".") + 1:
            ship(module, os.path.join(target, name.rpartition(".")[2] + ".py"))
    write_atomic(os.path.join(target, "__init__.py"), b"", mode=0o644, sync=False)


def command(name: str, place: str) -> tuple[str, ...]:
    """The command that starts a job in its unit."""
    start = f"import sys; sys.path.insert(0, {place!r}); from gpuadmin_node.jobs import main; sys.exit(main())"
    return (
        "systemd-run", f"--unit={unit_name(name)}", "--quiet", f"--description=gpuadmin: {name}",
        "--property=Nice=10", "--property=IOSchedulingClass=idle", "--property=RemainAfterExit=no", "--",
        sys.executable or "/usr/bin/python3", "-I", "-B", "-c", start, place,
    )  # fmt: skip


def _outcome(place: str, *names: str) -> dict[str, object] | None:
    for name in names:
        data = read_bytes(os.path.join(place, name))
        if data is not None:
            found: dict[str, object] = json.loads(data)
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

    Waits for one of the same arguments that is already at it. Raises NodeError with what went wrong, when another one
    is at it, or when ``wait`` seconds are over (the work goes on).
    """
    if not (os.path.isdir("/run/systemd/system") if systemd is None else systemd):
        return work(arguments)
    place = os.path.join(base, "jobs", name)
    unit, identity = unit_name(name), _identity(work.__name__, arguments)
    mark = read_bytes(os.path.join(place, "identity"))
    active = _active(unit, run)
    if active and mark != identity.encode():
        raise NodeError(f"{unit} is still at other work; wait for it (systemctl status {unit}), then run this again")
    if not active and not (mark == identity.encode() and _outcome(place, NEW) is not None):
        _start(name, work, arguments, place, run)
    deadline = None if wait is None else time.monotonic() + wait
    while _active(unit, run):
        if deadline is not None and time.monotonic() > deadline:
            raise NodeError(f"{unit} is still working; run this again to wait for it")
        time.sleep(0.3)
    # where two waited for the same, the other one may have taken it already
    outcome = _outcome(place, NEW, TAKEN)
    if outcome is None:
        log = run(("journalctl", "--no-pager", "--quiet", "--lines=3", "--output=cat", f"--unit={unit}")).stdout
        run(("systemctl", "reset-failed", unit))
        raise NodeError(f"{unit} ended without a word: {log.strip()}")
    try:
        os.rename(os.path.join(place, NEW), os.path.join(place, TAKEN))
    except FileNotFoundError:
        pass
    if "problem" in outcome:
        raise NodeError(str(outcome["problem"]))
    return outcome["result"]


def _active(unit: str, run: Runner) -> bool:
    state = run(("systemctl", "show", "--property=ActiveState", "--value", unit)).stdout.strip()
    return state in ("active", "activating", "deactivating", "reloading")


def _start(name: str, work: Work, arguments: Mapping[str, object], place: str, run: Runner) -> None:
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place, mode=0o700)
    ship_package(place)
    module = work.__module__.rpartition(".")[2]
    document = json.dumps({"module": module, "work": work.__name__, "arguments": arguments}).encode()
    write_atomic(os.path.join(place, "job.json"), document, mode=0o600, sync=False)
    write_atomic(os.path.join(place, "identity"), _identity(work.__name__, arguments).encode(), mode=0o600, sync=False)
    run(("systemctl", "reset-failed", unit_name(name)))
    result = run(command(name, place))
    if result.returncode != 0:
        raise NodeError(f"'{' '.join(command(name, place)[:3])} …' failed: {result.stderr.strip()}")


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
    write_atomic(os.path.join(place, NEW), json.dumps(outcome).encode(), mode=0o600)
    return 0

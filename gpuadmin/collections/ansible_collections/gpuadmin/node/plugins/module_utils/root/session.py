"""A root held open for a block of tasks, by a named transient systemd unit with a lease.

The unit outlives the module and the connection, and ends by itself: a controller that is killed in the middle leaves
the root open until the lease ends, not longer. The holder's code is root.py, written to /run, so that this works before
anything of gpuadmin is installed on the host.
"""

from __future__ import annotations

import os
import sys

from ..errors import NodeError
from ..jobs import ship
from ..run import Runner, run_command
from . import guard as root_code

UNIT = "gpuadmin-root-session.service"
# The lease is the holder's own and can be renewed; this is for a holder that hangs.
HARD_LIMIT_SECONDS = 24 * 3600
STOP_SECONDS = 300


def start_command(holder: str, lease: int, python: str) -> tuple[str, ...]:
    """The command that starts the holder; it returns when the root is open (the holder notifies systemd)."""
    return (
        "systemd-run", f"--unit={UNIT}", "--collect", "--quiet",
        "--description=gpuadmin holds the root open for writing",
        "--property=Type=notify", "--property=NotifyAccess=main",
        f"--property=RuntimeMaxSec={HARD_LIMIT_SECONDS}", f"--property=TimeoutStopSec={STOP_SECONDS}",
        f"--property=ExecStopPost={python} -I {holder} close-root",
        "--", python, "-I", holder, "hold-root", f"--lease={lease}",
    )  # fmt: skip


def _active(run: Runner) -> bool:
    return run(("systemctl", "is-active", "--quiet", UNIT)).returncode == 0


def _describe(needed: bool) -> dict[str, object]:
    writable = not root_code.is_read_only("/") if needed else True
    return {"needed": needed, "unit": UNIT, "writable": writable}


def open_session(lease: int, run: Runner = run_command) -> dict[str, object]:
    """Open the root for ``lease`` seconds, or renew the lease of a session that is there."""
    if not root_code.inspect("/").managed:
        return _describe(False)
    if not os.path.isdir("/run/systemd/system"):
        raise NodeError("this host does not run systemd: nothing could close its read-only root after a broken run")
    if _active(run):
        root_code.write_deadline(lease)
        if _active(run):  # it may just have ended
            return _describe(True)
    holder = os.path.join(root_code.RUN, "root_holder.py")
    ship(root_code, holder)
    command = start_command(holder, lease, sys.executable or "/usr/bin/python3")
    result = run(command)
    if result.returncode != 0 and not _active(run):
        log = run(("journalctl", "--no-pager", "--quiet", "--lines=5", "--output=cat", f"--unit={UNIT}")).stdout
        raise NodeError(f"the root could not be opened: {(result.stderr + log).strip()} (command: {' '.join(command)})")
    return _describe(True)


def close_session(run: Runner = run_command) -> dict[str, object]:
    """End the session; the root is read-only afterwards, unless another program of gpuadmin still holds it."""
    if not root_code.inspect("/").managed:
        return _describe(False)
    if os.path.isdir("/run/systemd/system"):
        result = run(("systemctl", "stop", UNIT))
        if result.returncode not in (0, 5) and _active(run):  # 5: no such unit
            raise NodeError(f"{UNIT} does not stop: {result.stderr.strip()}")
    found = root_code.close_left_open("/")
    session = _describe(True)
    if session["writable"] and "held open" not in found:
        raise NodeError(f"the root is still writable ({found})")
    return session

"""A root held open for a block of tasks, by a named transient systemd unit with a lease.

The unit outlives the module and the connection, and ends by itself: a controller that is killed in the middle leaves
the root open until the lease ends, not longer. The holder's code is guard.py, written to /run, so that this works
before anything of gpuadmin is installed on the host.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .. import unit
from ..errors import NodeError
from ..run import Runner, run_command
from ..ship import ship
from . import guard as root_code

UNIT = "gpuadmin-root-session.service"
# The lease is the holder's own and can be renewed; this is for a holder that hangs.
HARD_LIMIT_SECONDS = 24 * 3600
STOP_SECONDS = 300


def properties(holder: str, python: str) -> tuple[str, ...]:
    """The holder notifies systemd when the root is open: starting its unit returns then. Whatever ends it closes it."""
    return (
        "Type=notify", "NotifyAccess=main", f"RuntimeMaxSec={HARD_LIMIT_SECONDS}", f"TimeoutStopSec={STOP_SECONDS}",
        f"ExecStopPost={python} -I {holder} close-root",
    )  # fmt: skip


def _active(run: Runner) -> bool:
    return unit.state(UNIT, run) in unit.UP


@contextmanager
def opened(lease: int) -> Iterator[None]:
    """The root open for a block, for ``lease`` seconds at most."""
    open_session(lease)
    try:
        yield
    finally:
        close_session()


def open_session(lease: int, run: Runner = run_command) -> None:
    """Open the root for ``lease`` seconds, or renew the lease of a session that is there."""
    if not root_code.inspect("/").managed:
        return
    if not os.path.isdir("/run/systemd/system"):
        raise NodeError("this host does not run systemd: nothing could close its read-only root after a broken run")
    if _active(run):
        root_code.write_deadline(lease)
        if _active(run):  # it may just have ended
            return
    holder = os.path.join(root_code.RUN, "root_holder.py")
    ship(root_code, holder)
    python = sys.executable or "/usr/bin/python3"
    command = (python, "-I", holder, "hold-root", f"--lease={lease}")
    title = "gpuadmin holds the root open for writing"
    try:
        unit.start(UNIT, command, title, properties(holder, python), run=run, patience=0)
    except NodeError as error:
        if not _active(run):  # of two at once, one has opened it
            raise NodeError(f"the root could not be opened: {error} {unit.journal(UNIT, 5, run)}".strip()) from None


def close_session(run: Runner = run_command) -> None:
    """End the session; the root is read-only afterwards, unless another program of gpuadmin still holds it."""
    if not root_code.inspect("/").managed:
        return
    if os.path.isdir("/run/systemd/system"):
        unit.stop(UNIT, run)
    found = root_code.close_left_open("/")
    if not root_code.is_read_only("/") and "held open" not in found:
        raise NodeError(f"the root is still writable ({found})")

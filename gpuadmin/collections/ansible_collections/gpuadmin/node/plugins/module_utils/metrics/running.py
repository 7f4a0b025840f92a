"""What both of the collector's processes do: pass after pass on a period, files that are whole, and telling systemd."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from ..files import unlink_if_present, write_atomic
from ..paths import STATE
from ..root.guard import notify

RUN = "/run/gpuadmin-metrics"
SAMPLER, MAPPER = f"{RUN}/sampler", f"{RUN}/mapper"
RECORD = "gpus.json"  # in the sampler's directory: what the mapper is told
PERIOD = 10.0  # seconds
POLL = 0.25
CODE = f"{STATE}/lib/gpuadmin_node"  # the link to the code that units run
# The code of this process, wherever the link is now. Code that has just arrived is not a file (arriving.py).
OURS = os.path.dirname(os.path.dirname(os.path.realpath(globals().get("__file__", ""))))


def seconds_since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def tell(words: str) -> None:
    """Tell systemd, whose watchdog ends a process that is silent. If it does not hear, nothing is lost."""
    try:
        notify(words)
    except OSError:
        pass  # it restarts; it hears the next one, or ends us


def write(directory: str, name: str, text: str) -> None:
    """A file that others read, whole or not at all. It need not outlive a boot."""
    write_atomic(os.path.join(directory, name), text.encode(), mode=0o644, sync=False)


def remove(directory: str, *names: str) -> None:
    for name in names:
        unlink_if_present(os.path.join(directory, name))


def superseded() -> bool:
    """Whether units of this host run other code now than this process: another directory after an update
    (code_cache.py), also one that came while the process began.
    """
    # guard: code that came while a process began is other code -> False
    return os.path.lexists(CODE) and os.path.realpath(CODE) != OURS


def repeat(
    one_pass: Callable[[], None],
    ended: threading.Event,
    period: float = PERIOD,
    early: Callable[[], bool] = lambda: False,
) -> None:
    """A pass each ``period`` seconds until somebody ends it, or as soon as ``early`` says that there is something new.

    One that took longer is followed at once, and not made up for. It ends, too, when the host has other code: systemd
    starts that.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    tell("READY=1")
    while not ended.is_set() and not superseded():
        due = time.monotonic() + period
        one_pass()
        tell("WATCHDOG=1")
        while not ended.is_set() and time.monotonic() < due and not early():
            ended.wait(min(POLL, max(due - time.monotonic(), 0)))

"""Forks a process that keeps nothing of the one that starts it."""

from __future__ import annotations

import os
import signal
import warnings


def forked() -> int:
    """What fork(2) returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the units and modules have none
        return os.fork()


def detach(*kept: int) -> None:
    """In the process: nothing of whoever started it, but these descriptors."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)  # guard: what hangs in a driver holds nothing of ours
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed the others

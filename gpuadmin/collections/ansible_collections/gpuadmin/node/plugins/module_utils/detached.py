"""Forks a process that keeps nothing of the one that starts it."""

from __future__ import annotations

import ctypes
import os
import signal
import warnings

_PDEATHSIG = 1  # linux/prctl.h: PR_SET_PDEATHSIG


def forked() -> int:
    """What fork(2) returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the units and modules have none
        return os.fork()


def end_with_parent() -> None:
    """In the process: from here on it is killed when its parent ends."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def detach(*kept: int) -> None:
    """In the process: nothing of whoever started it, but these descriptors."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    let_go()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed the others


def let_go() -> None:
    """In the process: nobody waits for the end of its output, which for ssh is the end of a module."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)  # guard: what hangs holds nothing of ours
    if null > 2:
        os.close(null)

"""Ctrl-C and other signals while a playbook runs: they end ansible-playbook and all that belongs to it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_GRACE = 15.0  # seconds that an interrupted ansible-playbook has before it is asked again


@contextmanager
def handed_on() -> Iterator[list[int]]:
    """While a playbook runs, hand the signals that end us on to ansible-playbook itself, and remember them.

    ansible-runner's own cancel kills the process group, but ansible-core's workers have sessions of their own and
    would stay. Asked with SIGINT, ansible-playbook ends its workers; now and then it then waits for ever for one of
    its own threads. So it is asked again, less politely, after a while or when a second signal comes.
    """
    received: list[int] = []
    timers = [
        threading.Timer(_GRACE, _end_playbooks, [signal.SIGTERM]),
        threading.Timer(2 * _GRACE, _end_playbooks, [signal.SIGKILL]),
    ]

    def handler(number: int, _frame: object) -> None:
        received.append(number)
        _end_playbooks(signal.SIGINT if len(received) == 1 else signal.SIGTERM)
        if len(received) == 1:
            for timer in timers:
                timer.start()

    # what we were started to ignore (nohup, a job in the background) stays ignored
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # guard: a signal that was to be ignored ends no run -> list(names)
    heard = [name for name in names if signal.getsignal(name) is not signal.SIG_IGN]
    before = {name: signal.signal(name, handler) for name in heard}
    try:
        yield received
    finally:
        for name, previous in before.items():
            signal.signal(name, previous)
        for timer in timers:
            timer.cancel()


def _end_playbooks(number: signal.Signals) -> None:
    """Send a signal to our ansible-playbook; one that is not passed on, to all its workers too."""
    processes = _children(os.getpid())
    if number == signal.SIGKILL:
        processes += [worker for process in processes for worker in _children(process)]
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _children(parent: int) -> list[int]:
    """The ids of those children of a process that are ansible-playbook or a worker of it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            of = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if of == parent and b"ansible-playbook" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue  # it ended while we looked
    return found

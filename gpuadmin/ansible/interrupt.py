"""Ctrl-C and other signals while a playbook runs: they end ansible-playbook and all that belongs to it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuadmin.errors import GpuadminError

_GRACE = 15.0  # seconds that an interrupted ansible-playbook has before it is asked again
#: All processes: number, parent's number, arguments. By ps(1), since macOS has no /proc.
_LIST = ("ps", "-A", "-ww", "-o", "pid=", "-o", "ppid=", "-o", "args=")


@contextmanager
def handed_on() -> Iterator[list[int]]:
    """While a playbook runs, hand the signals that end us on to ansible-playbook itself, and remember them.

    ansible-runner's own cancel kills the process group, but ansible-core's workers have sessions of their own and
    would stay. Asked with SIGINT, ansible-playbook ends its workers; now and then it then waits for ever for one of
    its own threads. So it is asked again, less politely, after a while or when a second signal comes.
    Raises GpuadminError where there is no ps.
    """
    if shutil.which(_LIST[0]) is None:
        raise GpuadminError(
            "this machine has no ps, without which a run could not be interrupted",
            hint="Debian, Ubuntu: apt install procps; Fedora: dnf install procps-ng; Arch: procps-ng",
        )
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


def until_ended(alive: Path) -> None:
    """Wait until a run's ansible-playbook and its workers have ended: they keep this FIFO open. Later, end them.

    Most are not our children: they are known by the run's own directory, which their arguments name.
    """
    for number in (signal.SIGTERM, signal.SIGKILL, 0):  # 0 ends nothing
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            try:
                os.close(os.open(alive, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno in (errno.ENXIO, errno.ENOENT):  # nobody reads it
                    return
            time.sleep(0.01)  # nothing tells of their end
        for process, _, arguments in _processes():
            # guard: a run that ended ends no other run of this machine -> True
            if os.fsencode(alive.parent.name) in arguments:
                with suppress(ProcessLookupError, PermissionError):  # anybody may have a process with such arguments
                    os.kill(process, number)


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
    # guard: a signal ends no other run of this machine -> [process for process, of, _ in _processes()]
    return [process for process, of, _ in _processes() if of == parent]


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Each ansible-playbook and worker on this machine: its id, its parent's, and its arguments."""
    try:
        # in a session of its own, so that the next Ctrl-C does not end it
        listed = subprocess.run(_LIST, capture_output=True, check=False, start_new_session=True).stdout
    except OSError:  # guard: a signal is not forgotten where no process can be started
        return
    for line in listed.splitlines():
        if b"ansible-playbook" in line:
            process, of, arguments = line.split(maxsplit=2)
            yield int(process), int(of), arguments

"""A command in the foreground, with the terminal of whoever calls it: what it reads, prints, gets as signals and ends
with is its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

LOOKS = 30.0  # seconds between two looks whether it may still run
GRACE = 30.0  # seconds that it has to end, once it may not
#: What the terminal sends to everybody in front of it, and what is sent to us alone.
_TERMINAL, _OURS = (signal.SIGINT, signal.SIGQUIT), (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """What ends us while we wait is as Ctrl-C: whoever waits has something to give up."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with _handled(dict.fromkeys(_OURS, interrupt)):
        yield


@contextmanager
def _handled(wanted: Mapping[int, Callable[[int, object], None]]) -> Iterator[None]:
    """These signals are handled so. What is ignored (nohup) stays so: what we start inherits it."""
    before = {one: signal.getsignal(one) for one in wanted}
    heard = [one for one, handler in before.items() if handler != signal.SIG_IGN]
    for one in heard:
        signal.signal(one, wanted[one])
    try:
        yield
    finally:
        for one in heard:
            signal.signal(one, before[one])


def run_foreground(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds_left: Callable[[], float],
    keep: Sequence[int] = (),
    *,
    looks: float = LOOKS,
) -> int:
    """Run a command, and return what a shell calls its exit status: 143 after SIGTERM.

    When ``seconds_left`` has some it is asked to end, and ended after them. ``keep``: descriptors that it
    inherits. If we are killed, it is told that its terminal has gone.
    """
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []  # while the command is started

    def forward(number: int, _frame: object) -> None:
        if process is None:
            early.append(number)
        elif process.returncode is None:
            process.send_signal(number)

    def leave(_number: int, _frame: object) -> None:
        """The command has got it, too, and decides."""

    with _handled({**dict.fromkeys(_OURS, forward), **dict.fromkeys(_TERMINAL, leave)}):
        words = ("setpriv", "--pdeathsig", "HUP", "--", *command)
        process = subprocess.Popen(words, env=dict(environment), pass_fds=keep)
        for number in early:
            process.send_signal(number)
        watch, seconds, ending = os.pidfd_open(process.pid), looks, False
        while not select.select([watch], [], [], seconds)[0]:
            if ending:
                process.kill()
            elif left := seconds_left():
                process.terminate()
                seconds, ending = left, True
        os.close(watch)
        status = process.wait()
    return status if status >= 0 else 128 - status

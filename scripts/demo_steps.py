"""What all parts of the demo say and do: a step has a title, a command is printed before it is run, and checked."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType

GPUADMIN = str(Path(sys.executable).parent / "gpuadmin")
BOLD, CYAN, GREEN, RESET = ("\033[1m", "\033[36m", "\033[32m", "\033[0m")
if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
    BOLD = CYAN = GREEN = RESET = ""


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{RESET}", flush=True)


def run(*command: str, check: bool = True, capture: bool = False, typed: str = "") -> str:
    """Print a command as it would be typed, run it, and return what it printed."""
    line = [Path(word).name if word == GPUADMIN else word for word in command]
    print(f"{CYAN}{typed or f'$ {shlex.join(line)}'}{RESET}", flush=True)
    if not capture:
        on_term = signal.getsignal(signal.SIGTERM)
        unblock = partial(signal.pthread_sigmask, signal.SIG_SETMASK, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        try:
            # a signal before Popen returns would leave the command behind
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM})
            with subprocess.Popen(command, preexec_fn=unblock) as process:  # noqa: PLW1509 - there are no threads

                def pass_on(number: int, _frame: FrameType | None) -> None:
                    process.send_signal(number)  # Ctrl-C and a closed terminal reach both of us, and `kill` one
                    raise KeyboardInterrupt

                try:
                    if on_term != signal.SIG_IGN:
                        signal.signal(signal.SIGTERM, pass_on)
                    for number in signal.sigpending() - {signal.SIGTERM}:
                        process.send_signal(number)  # before the fork it reached us alone
                    unblock()
                    code = process.wait()
                except KeyboardInterrupt:
                    process.wait()  # it ends what it has begun
                    raise
        finally:
            signal.signal(signal.SIGTERM, on_term)
            unblock()
        if check and code:
            raise subprocess.CalledProcessError(code, command)
        return ""
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="", flush=True)
    if check and done.returncode != 0:
        raise SystemExit(f"the demo stopped: that command ended with {done.returncode}")
    return done.stdout


def expect(condition: bool, text: str) -> None:
    if not condition:
        raise SystemExit(f"the demo stopped: expected that {text}")
    print(f"{GREEN}✓ {text}{RESET}", flush=True)


def until(comes: Callable[[], bool], text: str, seconds: float = 60) -> None:
    """Look until it is so: Slurm starts and ends jobs when it looks at its queue."""
    end = time.monotonic() + seconds
    while not (there := comes()) and time.monotonic() < end:
        time.sleep(2)  # Slurm tells nobody
    expect(there, text)


@contextmanager
def behind(show: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Have something shown in a process of its own, which begins now and gives way to others.

    Gives what prints all that it has printed, and waits for its end; it raises SystemExit where that failed. What runs
    at the end of the block is interrupted.
    """
    with TemporaryFile() as log:

        def alone() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in a script's background
            os.setpgid(0, 0)  # Ctrl-C is for the foreground, which passes it on
            os.nice(5)
            with Path(os.devnull).open() as nothing:
                os.dup2(nothing.fileno(), 0)
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            show()

        process = multiprocessing.get_context("fork").Process(target=alone)
        process.start()
        os.setpgid(process.pid or 0, process.pid or 0)  # whichever of the two comes first

        def follow() -> None:
            sys.stdout.flush()
            place, alive = 0, True
            while alive:
                alive = process.is_alive()  # first: what it prints at its end is read too
                while piece := os.pread(log.fileno(), 1 << 16, place):
                    place += os.write(1, piece)
                if alive:
                    time.sleep(1)  # a file tells nobody that it grows
            code = process.exitcode or 0
            if code:
                raise SystemExit(1 if code > 0 else f"the demo stopped: signal {-code} ended what ran behind")

        try:
            yield follow
        finally:
            if process.is_alive():
                os.killpg(process.pid, signal.SIGINT)
            process.join()

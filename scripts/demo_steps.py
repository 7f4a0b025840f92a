"""What all parts of the demo say and do: a step has a title, a command is printed before it is run, and checked."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

GPUADMIN = str(Path(sys.executable).parent / "gpuadmin")
STEPS = itertools.count(1)
BOLD, CYAN, GREEN, RESET = ("\033[1m", "\033[36m", "\033[32m", "\033[0m")
if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
    BOLD = CYAN = GREEN = RESET = ""


def title(text: str) -> None:
    print(f"\n{BOLD}{next(STEPS)}. {text}{RESET}", flush=True)


def run(*command: str, check: bool = True, capture: bool = False, typed: str = "") -> str:
    """Print a command as it would be typed, run it, and return what it printed."""
    line = [Path(word).name if word == GPUADMIN else word for word in command]
    print(f"{CYAN}{typed or f'$ {shlex.join(line)}'}{RESET}", flush=True)
    if not capture:
        subprocess.run(command, check=check)
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

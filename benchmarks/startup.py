"""How long `gpuadmin --help` takes, beside `python -c 'import click'`: at most half as long again.

    .venv/bin/python benchmarks/startup.py [--runs 30] [--json FILE]

Method. Both commands are run by turns, so that whatever else the machine does hits both; medians are compared. The
installed command is used if there is one beside this Python, else `python -m gpuadmin`. Leaves with 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 1.5


def seconds(command: Sequence[str]) -> float:
    """Seconds that a command takes from its start to its end."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT)
    return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description="Start-up time of gpuadmin.")
    parser.add_argument("--runs", type=int, default=30, help="runs of each command")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "startup.json", help="where the figures go")
    options = parser.parse_args()

    installed = Path(sys.executable).parent / "gpuadmin"
    help_command = [str(installed), "--help"] if installed.exists() else [sys.executable, "-m", "gpuadmin", "--help"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import click'": [sys.executable, "-c", "import click"],
        "gpuadmin --help": help_command,
    }
    measured: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(options.runs + 1):
        for name, command in commands.items():
            elapsed = seconds(command)
            if turn:  # the first turn fills the caches
                measured[name].append(elapsed)
    medians = {name: statistics.median(values) for name, values in measured.items()}
    ratio = medians["gpuadmin --help"] / medians["python -c 'import click'"]

    print("| command | median | fastest |\n| --- | ---: | ---: |")
    for name, values in measured.items():
        print(f"| `{name}` | {medians[name] * 1000:.0f} ms | {min(values) * 1000:.0f} ms |")
    print(f"\ngpuadmin --help takes {ratio:.2f} × the time of import click; at most {LIMIT} × is promised.")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "method": f"{options.runs} runs of each by turns, medians",
        "python": platform.python_version(),
        "medians_s": {name: round(value, 4) for name, value in medians.items()},
        "ratio": round(ratio, 2),
        "limit": LIMIT,
    }
    options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

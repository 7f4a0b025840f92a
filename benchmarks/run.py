"""Run the benchmarks, and keep what they print for the page: `make benchmarks` (ARGS=NAME for some).

    sudo .venv/bin/python benchmarks/run.py [NAME …]

One after the other. benchmarks/figures.json has each one's output with the commit, the day and how many processors were
in use before it; `make docs` makes benchmarks/README.md of that. One that broke leaves what was there, and ends this
with 1.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from _checkout import ROOT

FIGURES = ROOT / "benchmarks" / "figures.json"
#: What is run of each. The long ones have sizes with which all take some 20 minutes on two cores.
COMMANDS: Mapping[str, str] = {
    "startup": "",
    "top": "",
    "usage_page": "",
    "collector": "",
    "disk_usage": "",
    "diagnose": "",
    "adopt": "",
    "code_cache": "--nodes 6",
    "add_users": "--users 30",
    "renumber": "--files 200000 --people 1,40",
    "wipe": "",
    "push_image": "",
    "relay": "",
    "grants": "",
    "queue": "",
}


def ask_git(*words: str) -> str:
    """Return what git answers in one line, "" where there is none."""
    done = subprocess.run(("git", *words), cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip()


def idle_seconds(stat: Path = Path("/proc/stat")) -> float:
    """Return how long this machine's processors have had nothing to do, summed: proc_stat(5)."""
    fields = stat.read_text(encoding="ascii").split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def processors_in_use(seconds: float = 5.0) -> float:
    """Return how many processors are in use, over so long; the load average would still have the benchmark before."""
    idle, begun = idle_seconds(), time.monotonic()
    time.sleep(seconds)  # what is measured
    return max(0.0, (os.cpu_count() or 1) - (idle_seconds() - idle) / (time.monotonic() - begun))


def main() -> int:
    names = sys.argv[1:] or list(COMMANDS)
    if unknown := [name for name in names if name not in COMMANDS]:
        print(f"no benchmark {', '.join(unknown)}; there is {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        words = [f"benchmarks/{name}.py", *shlex.split(COMMANDS[name])]
        commit = ask_git("rev-parse", "--short=8", "HEAD")
        in_use, begun = processors_in_use(), time.monotonic()
        print(f"{shlex.join(words)} …", file=sys.stderr, flush=True)
        done = subprocess.run((sys.executable, *words), cwd=ROOT, check=False, capture_output=True, text=True)
        print(done.stdout, done.stderr, sep="\n", flush=True)
        # 1: a promise was missed, or it broke
        if done.returncode not in (0, 1) or "Traceback (most recent" in done.stderr or not done.stdout.strip():
            failed.append(name)
            continue
        figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
        figures[name] = {
            "command": shlex.join(words),
            "commit": commit,
            "date": datetime.date.today().isoformat(),
            "minutes": round((time.monotonic() - begun) / 60, 1),
            "in_use": round(in_use, 1),
            "processors": os.cpu_count(),
            "missed": done.returncode == 1,
            "output": done.stdout.strip().replace(f"{ROOT}/", ""),
        }
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"failed: {', '.join(failed)}" if failed else "make docs writes the page", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

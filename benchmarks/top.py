"""How long `gpuadmin top --once` takes over 200 nodes of 8 GPUs: less than a second.

    .venv/bin/python benchmarks/top.py [--nodes 200] [--runs 5] [--json FILE]

Method. A real Prometheus (Debian's) on the loopback interface, filled by promtool with what so many nodes write, is
asked by the installed command, from the start of Python to its last line; the median of several runs. The ssh to the
monitor host is not in it; the import alone is in the same run. The first row is the one run with cold files. What the
command itself uses of a processor is beside it: on a machine that does other things, that is what can be compared.
Leaves with 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _checkout import ROOT

from gpuadmin.config.skeleton import SiteHost, write_site
from tests.support.metrics_cluster import node
from tests.support.prometheus import blocks, prometheus

LIMIT = 1.0
GPUS = 8


def seconds(command: Sequence[str]) -> tuple[float, float]:
    """Seconds that a command takes from its start to its end, and of a processor's time."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, used


def main() -> int:
    parser = argparse.ArgumentParser(description="gpuadmin top over many nodes.")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "top.json", help="where the figures go")
    options = parser.parse_args()
    names = [f"gpu{number:03}" for number in range(options.nodes)]
    with tempfile.TemporaryDirectory(prefix="gpuadmin-bench-") as temporary:
        base, now = Path(temporary), time.time()
        held = {index: (f"user{index}", f"train{index}") for index in range(GPUS - 1)}
        lines = [line for name in names for line in node(name, now, gpus=GPUS, held=held)]
        with prometheus(base, blocks(base, lines)) as port:
            hosts = [SiteHost("nas1", ("storage", "monitor"), {"ansible_connection": "local"})]
            hosts += [SiteHost(name, ("gpu",), {"ansible_host": "127.0.0.1"}) for name in names]
            site = base / "site"
            write_site(site, name="bench", settings={}, hosts=hosts, schemas=False)
            with (site / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
                stream.write(f"metrics: {{port: {port}}}\n")
            command = [sys.executable, "-m", "gpuadmin", "top", "--site", str(site)]
            commands = {
                "import": [sys.executable, "-c", "import gpuadmin.actions.top"],
                "top --once --json": [*command, "--once", "--json"],
                "top --once": [*command, "--once"],
            }
            measured: dict[str, list[tuple[float, float]]] = {name: [] for name in ("the first", *commands)}
            measured["the first"].append(seconds(commands["top --once --json"]))
            for _ in range(options.runs):
                for name, one in commands.items():
                    measured[name].append(seconds(one))
    medians = {name: statistics.median(value for value, _ in values) for name, values in measured.items()}
    processor = {name: statistics.median(value for _, value in values) for name, values in measured.items()}
    print(f"{options.nodes} nodes of {GPUS} GPUs, {len(lines)} samples\n\n")
    print("| command | median | processor's time |\n| --- | ---: | ---: |")
    for name in measured:
        print(f"| `{name}` | {medians[name]:.2f} s | {processor[name]:.2f} s |")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "method": f"{options.runs} runs of each by turns, medians", "python": platform.python_version(),
        "nodes": options.nodes, "samples": len(lines), "limit": LIMIT,
        "medians_s": {name: round(value, 3) for name, value in medians.items()},
        "processor_s": {name: round(value, 3) for name, value in processor.items()},
    }  # fmt: skip
    options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(medians["top --once --json"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

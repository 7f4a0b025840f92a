"""What a run with nothing to do costs where hosts keep the node code, and the first one after the code changed.

    sudo .venv/bin/python benchmarks/code_cache.py [--nodes 6 60] [--users 100] [--rounds 2] [--before DIR]

Method. Cheap ssh hosts (tests/support/scale_hosts.py) on this machine, a storage host beside the nodes. After a first
`gpuadmin sync-users` come runs with nothing to do. Processor time of the controller is that of its processes
(getrusage), of the hosts that of all processes below theirs (/proc/PID/stat). The figures are sums over the rounds.

The first run after the code changed: the hosts' library is removed, and a run with nothing to do brings it again; with
`--before`, in turns with another checkout of this project. What compiles on the hosts afterwards is waited for, and is
in their processor time. Beside it is the run that made the accounts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _checkout import ROOT

from tests.support.scale_hosts import Cluster, cluster, root_file_system
from tests.support.scale_people import gpuadmin, site

LIBRARY = "var/lib/gpuadmin/lib"
SECONDS_TO_COMPILE = 8.0


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, and processor seconds."""

    clock: float = 0.0
    controller: float = 0.0
    hosts: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.clock + other.clock, self.controller + other.controller, self.hosts + other.hosts)


def of_controller() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_hosts(running: Cluster) -> float:
    """Processor seconds of all processes of the hosts, those that have ended too: their parents count them."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        number = int(path.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))  # proc_pid_stat(5)
    tops = {host.process.pid for host in running.hosts}

    def theirs(number: int) -> bool:
        while number in parents and number not in tops:
            number = parents[number]
        return number in tops

    return sum(count for number, count in ticks.items() if theirs(number)) / os.sysconf("SC_CLK_TCK")


def cost(running: Cluster, directory: Path, status: str, checkout: Path = ROOT) -> Cost:
    """What one `gpuadmin sync-users --yes` of a checkout costs, every host of which must end with that status."""
    controller, hosts, begin = of_controller(), of_hosts(running), time.perf_counter()
    document = gpuadmin(directory, "sync-users", "--yes", PYTHONPATH=str(checkout), PYTHONSAFEPATH="1")
    taken = Cost(time.perf_counter() - begin, of_controller() - controller, of_hosts(running) - hosts)
    states = {host["status"] for host in document["hosts"].values()}
    if document["exit_code"] != 0 or states != {status}:
        raise RuntimeError(f"sync-users ended with {document['exit_code']}, {states}: {document['stderr'][-2000:]}")
    return taken


def bring(running: Cluster, directory: Path, checkout: Path) -> Cost:
    """What the first run with nothing to do costs hosts that have not got the code of a checkout."""
    for host in running.hosts:
        shutil.rmtree(host.root / LIBRARY, ignore_errors=True)
    before = of_hosts(running)
    taken = cost(running, directory, "ok", checkout)
    time.sleep(SECONDS_TO_COMPILE)  # nobody is told when it has ended
    return Cost(taken.clock, taken.controller, of_hosts(running) - before)


def measure(nodes: int, users: int, rounds: int, base: Path, earlier: Path | None) -> dict[str, Any]:
    """One row of the table."""
    with cluster(["storage1", *(f"node{index + 1}" for index in range(nodes))]) as running:
        directory = site(running, Path(tempfile.mkdtemp(dir=base)), users)
        made = cost(running, directory, "changed")
        brought, brought_earlier = Cost(), Cost()
        kept = Cost()
        for _ in range(rounds):
            if earlier is not None:
                brought_earlier += bring(running, directory, earlier)
            brought += bring(running, directory, ROOT)
            kept += cost(running, directory, "ok")
    return {
        "nodes": nodes, "users": users, "rounds": rounds, "kept": vars(kept),
        "made": vars(made), "brought": vars(brought), "brought_earlier": vars(brought_earlier),
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Controller + hosts on the processor, and the clock."""
    lines = [
        "| people × hosts: processor of controller + hosts, clock "
        "| 100 accounts made | code changed: before | code changed: now | nothing to do |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        each = []
        for way in ("made", "brought_earlier", "brought", "kept"):
            times = 1 if way == "made" else row["rounds"]
            controller, hosts, clock = (row[way][name] / times for name in ("controller", "hosts", "clock"))
            each.append(f"{controller:.1f} + {hosts:.1f} s, {clock:.1f} s" if clock else "not measured")
        lines.append(f"| {row['users']} × {row['nodes'] + 1} | {' | '.join(each)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Node code that hosts keep, and its first run.")
    parser.add_argument("--nodes", type=int, nargs="*", default=[6, 60], help="a row for each number")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind")
    parser.add_argument("--before", type=Path, help="another checkout, whose first run is measured beside this one's")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "code_cache.json", help="where the figures go")
    options = parser.parse_args()
    # a benchmark that is ended leaves no hosts behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root_file_system()
    with tempfile.TemporaryDirectory() as base:
        rows = [measure(nodes, options.users, options.rounds, Path(base), options.before) for nodes in options.nodes]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"method": __doc__, "rows": rows}, indent=2) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()

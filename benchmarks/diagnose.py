"""How long `gpuadmin diagnose NAME` takes on six nodes and a storage host, one account being broken: under 5 s.

    sudo .venv/bin/python benchmarks/diagnose.py [--nodes 6] [--users 100] [--runs 5] [--json FILE] [--profile FILE]

Method. Cheap ssh hosts (tests/support/scale_hosts.py) on this machine, set up by `gpuadmin sync-users`; one of the
people has no account on one node. The installed command is run from the start of Python to its last line, and must
name the cause in its first line. By turns: with new ssh connections, as in the morning, and with those that the run
before left open (ControlPersist). Medians. Processor time of the controller is that of its processes (getrusage), of
the hosts that of all processes below theirs (/proc/PID/stat): on a machine that does other things, that is what can be
compared. The import alone is in the same run. Leaves with 1 above the limit. `--profile`: one more run, under
cProfile.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _checkout import ROOT
from code_cache import Cost, cost, of_controller, of_hosts

from gpuadmin.ansible import connections
from tests.support.scale_hosts import Cluster, cluster, root_file_system
from tests.support.scale_people import gpuadmin, site

LIMIT = 5.0
BROKEN = "node3"
PERSON = "user0003"


def break_account(running: Cluster) -> None:
    """Take the person's account from one node, as if it had been down when the account was made."""
    (host,) = [one for one in running.hosts if one.name == BROKEN]
    for name in ("passwd", "shadow"):
        path = host.root / "etc" / name
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith(f"{PERSON}:")))


def looked(running: Cluster, directory: Path) -> Cost:
    """What one `gpuadmin diagnose` costs. Raises RuntimeError where it does not name the cause first."""
    controller, hosts, begin = of_controller(), of_hosts(running), time.perf_counter()
    document = gpuadmin(directory, "diagnose", PERSON)
    taken = Cost(time.perf_counter() - begin, of_controller() - controller, of_hosts(running) - hosts)
    first = document["result"]["verdict"]
    if document["exit_code"] != 6 or first != f"{BROKEN}: {PERSON} has no account there":
        raise RuntimeError(f"diagnose ended with {document['exit_code']}: {first}\n{document['stderr'][-2000:]}")
    if document["result"]["silent"]:
        raise RuntimeError(f"silent: {document['result']['silent']}")
    return taken


def imported() -> Cost:
    """What importing the verb costs: the part that no host has to do with."""
    controller, begin = of_controller(), time.perf_counter()
    subprocess.run([sys.executable, "-c", "import gpuadmin.actions.diagnose"], check=True, cwd=ROOT)
    return Cost(time.perf_counter() - begin, of_controller() - controller)


def middle(costs: list[Cost]) -> Cost:
    """The median of each column."""
    return Cost(*(statistics.median(getattr(one, name) for one in costs) for name in ("clock", "controller", "hosts")))


def main() -> int:
    parser = argparse.ArgumentParser(description="gpuadmin diagnose NAME over some nodes.")
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "diagnose.json", help="where the figures go")
    parser.add_argument("--profile", type=Path, help="write a profile of one more run there (pstats)")
    options = parser.parse_args()
    # a benchmark that is ended leaves no hosts behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root_file_system()
    measured: dict[str, list[Cost]] = {"import alone": [], "new connections": [], "open connections": []}
    with (
        tempfile.TemporaryDirectory(prefix="gpuadmin-bench-") as base,
        cluster(["storage1", *(f"node{index + 1}" for index in range(options.nodes))]) as running,
    ):
        directory = site(running, Path(base) / "site", options.users)
        cost(running, directory, "changed")
        cost(running, directory, "ok")  # brings the code that hosts keep
        break_account(running)
        for turn in range(options.runs + 1):
            connections.close(directory / "known_hosts")
            for name, found in (
                ("import alone", imported()),
                ("new connections", looked(running, directory)),
                ("open connections", looked(running, directory)),
            ):
                if turn:  # the first turn fills the caches
                    measured[name].append(found)
        if options.profile is not None:
            line = [sys.executable, "-m", "cProfile", "-o", str(options.profile), "-m", "gpuadmin", "diagnose", PERSON]
            done = subprocess.run([*line, "--site", str(directory)], check=False, stdout=subprocess.DEVNULL)
            print(f"profile of a run that ended with {done.returncode}: {options.profile}", file=sys.stderr)
        connections.close(directory / "known_hosts")
    medians = {name: middle(costs) for name, costs in measured.items()}
    print(f"{options.nodes} nodes and a storage host, {options.users} people\n")
    print("| diagnose | clock | processor: controller | all hosts |\n| --- | ---: | ---: | ---: |")
    for name, one in medians.items():
        print(f"| {name} | {one.clock:.2f} s | {one.controller:.2f} s | {one.hosts:.2f} s |")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {"method": __doc__, "nodes": options.nodes, "users": options.users,
               "limit": LIMIT, "medians": {name: vars(one) for name, one in medians.items()}}  # fmt: skip
    options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(medians["new connections"].clock > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

"""What it costs to give many people Docker on many hosts: gpuadmin against the wiki's playbook, and how it grows.

    sudo .venv/bin/python benchmarks/add_users.py [--users 30 100] [--hosts 6] [--many] [--quick] [--json FILE]

Method. Cheap ssh hosts (tests/support/scale_hosts.py) on this machine, fresh ones for every measurement of a first run.
The wiki's playbook (benchmarks/wiki/) finds the accounts made already and runs with Ansible's default settings;
`gpuadmin sync-users --yes` is timed as a whole, from the start of Python to its last line, and does more: it makes the
accounts, keys and homes too, and has the storage host besides. Afterwards the outcome of both is compared. The wiki is
run once, between gpuadmin's first and second run; gpuadmin's figure is the median of its runs. The hosts share the
controller's processors, so trust the ratios, not the seconds. The ratio of processor time, of controller and hosts
together, does not depend on what else the machine did; gpuadmin's side of it holds the run with nothing to do, too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _checkout import ROOT

from tests.support import scale_wiki as wiki
from tests.support.scale_hosts import Cluster, cluster, root_file_system
from tests.support.scale_outcome import outcome
from tests.support.scale_people import gpuadmin, site

Row = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """Seconds on the clock, and processor seconds of the controller and all hosts together."""

    seconds: float
    processor: float
    again: float = 0.0  # seconds of a second run, with nothing to do; its processor time is in `processor`


def processor_seconds() -> float:
    """Processor time of all processes that we started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def names(hosts: int) -> list[str]:
    return ["storage1", *(f"node{index + 1}" for index in range(hosts))]


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def sync(directory: Path, status: str) -> float:
    """Seconds of `gpuadmin sync-users --yes`, every host of which must end with that status."""
    begin = time.perf_counter()
    document = gpuadmin(directory, "sync-users", "--yes")
    seconds = time.perf_counter() - begin
    states = {host["status"] for host in document["hosts"].values()}
    if document["exit_code"] != 0 or states != {status}:
        raise RuntimeError(f"sync-users ended with {document['exit_code']}, {states}: {document['stderr'][-2000:]}")
    return seconds


def everybody_is_there(running: Cluster, users: int) -> None:
    """Stop the benchmark if a node does not have what the wiki's playbook is for."""
    for host in running.hosts:
        if host.name != "storage1":
            found = outcome(host, users)
            if not len(found.subuid) == len(found.subgid) == len(found.data) == users:
                raise RuntimeError(f"{host.name}: not all of {users} people have what they need")


def ours(users: int, hosts: int, base: Path) -> Measured:
    """A first run on fresh hosts, and a second run that finds nothing to do."""
    before = processor_seconds()
    with cluster(names(hosts)) as running:
        directory = site(running, Path(tempfile.mkdtemp(dir=base)), users)
        first = sync(directory, "changed")
        everybody_is_there(running, users)
        again = sync(directory, "ok")
    return Measured(first, processor_seconds() - before, again)


def theirs(users: int, hosts: int, base: Path, *, tuned: bool) -> Measured:
    """The wiki's playbook on fresh hosts."""
    before = processor_seconds()
    with cluster(names(hosts)) as running:
        for host in running.hosts:
            wiki.prepare(host, users)
        seconds = timed(lambda: wiki.run(running, users, Path(tempfile.mkdtemp(dir=base)), tuned=tuned))
        everybody_is_there(running, users)
    return Measured(seconds, processor_seconds() - before)


def against_the_wiki(users: int, hosts: int, runs: int, base: Path, *, tuned: bool) -> Row:
    """One row: both ways, and their ratio."""
    measured = [ours(users, hosts, base)]
    baseline = theirs(users, hosts, base, tuned=tuned)
    measured += [ours(users, hosts, base) for _ in range(runs - 1)]
    first = statistics.median(run.seconds for run in measured)
    processor = statistics.median(run.processor for run in measured)
    return {
        "what": "wiki's playbook, tuned" if tuned else "wiki's playbook",
        "users": users,
        "hosts": hosts,
        "wiki_s": round(baseline.seconds, 1),
        "wiki_processor_s": round(baseline.processor, 1),
        "gpuadmin_s": round(first, 2),
        "gpuadmin_runs_s": [round(run.seconds, 2) for run in measured],
        "gpuadmin_again_s": round(statistics.median(run.again for run in measured), 2),
        "gpuadmin_processor_s": round(processor, 1),
        "ratio": round(baseline.seconds / first, 1),
        "processor_ratio": round(baseline.processor / processor, 1),
    }


def growth(users: int, hosts: int, runs: int, base: Path) -> Row:
    """One row without a baseline: the first run, and the median of runs that find nothing to do."""
    with cluster(names(hosts)) as running:
        directory = site(running, Path(tempfile.mkdtemp(dir=base)), users)
        first = sync(directory, "changed")
        everybody_is_there(running, users)
        again = [sync(directory, "ok") for _ in range(runs)]
    return {
        "what": "gpuadmin alone",
        "users": users,
        "hosts": hosts,
        "gpuadmin_s": round(first, 2),
        "gpuadmin_again_s": round(statistics.median(again), 2),
        "gpuadmin_again_runs_s": [round(seconds, 2) for seconds in again],
    }


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| people × hosts | wiki's playbook | gpuadmin | gpuadmin, nothing to do | ratio | of processor time |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        tuned = " (tuned)" if row["what"].endswith("tuned") else ""
        baseline = f"{row['wiki_s']} s{tuned}" if "wiki_s" in row else "—"
        ratio = f"{row['ratio']} × | {row['processor_ratio']} ×" if "ratio" in row else "— | —"
        lines.append(
            f"| {row['users']} × {row['hosts']} | {baseline} | {row['gpuadmin_s']} s | {row['gpuadmin_again_s']} s "
            f"| {ratio} |"
        )
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    from importlib.metadata import version

    return {
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "ansible_core": version("ansible-core"),
        "system": platform.platform(terse=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Accounts for many people: gpuadmin against the wiki's playbook.")
    parser.add_argument("--users", type=int, nargs="*", help="people, a row for each number [30 100]")
    parser.add_argument("--hosts", type=int, default=6, help="nodes beside the storage host")
    parser.add_argument("--runs", type=int, default=3, help="runs of gpuadmin, of which the median counts")
    parser.add_argument("--tuned", action="store_true", help="the wiki's playbook with tuned settings")
    parser.add_argument("--many", action="store_true", help="also 100 people on 200 hosts: some minutes, 3 GB")
    parser.add_argument("--quick", action="store_true", help="only the wiki, with 30 people or --users")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "add_users.json", help="where the figures go")
    options = parser.parse_args()

    # a benchmark that is ended leaves no hosts behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root_file_system()  # made once; as a child of ours it would count as gpuadmin's processor time
    facts, rows = machine(), []
    with tempfile.TemporaryDirectory() as base:
        for users in options.users or ([30] if options.quick else [30, 100]):
            print(f"{users} people × {options.hosts} hosts …", file=sys.stderr, flush=True)
            rows.append(against_the_wiki(users, options.hosts, options.runs, Path(base), tuned=options.tuned))
        alone = () if options.quick else ((1000, options.hosts), (100, 40), *(((100, 200),) if options.many else ()))
        for users, hosts in alone:
            print(f"{users} people × {hosts} hosts …", file=sys.stderr, flush=True)
            rows.append(growth(users, hosts, options.runs, Path(base)))
    assert __doc__ is not None
    method = " ".join(__doc__.partition("Method. ")[2].split())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"method": method, "machine": facts, "rows": rows}, indent=2) + "\n")
    print(table(rows))
    print(f"\n{method}\n{facts['processors']} processors; {options.json}")


if __name__ == "__main__":
    main()

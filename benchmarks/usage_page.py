"""How long the dashboard's pages take: /usage over 365 days of 200 GPUs, and the first page, each less than a second.

    .venv/bin/python benchmarks/usage_page.py [--days 365] [--nodes 25] [--people 60] [--json FILE]

Method. A real Prometheus (Debian's) on the loopback interface, filled by promtool with what its own rules record every
two hours (roles/monitoring/files/rules/usage.yml): all GPUs are held all the time, each node's by three of 60 people,
who change each day. The application answers in this process, each page once; by account and node it is made of the
answer that the page by person has asked for. On a machine that does other things the processor time of both is what
can be compared. Leaves with 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from _checkout import ROOT

sys.path.remove(str(Path(__file__).parent))  # whose queue.py is not the standard library's

from starlette.testclient import TestClient

from tests.support.dashboard_app import OpenAccess, board, settings
from tests.support.metrics_cluster import node
from tests.support.prometheus import blocks, prometheus

LIMIT = 1.0
GPUS, STEP = 8, 7200
KINDS = {"held": 18000.0, "measured": 18000.0, "active": 14200.0, "joules": 8.2e6}
BUCKETS = ("60", "300", "900", "3600", "10800", "28800", "86400", "259200", "604800", "+Inf")


def recorded(now: float, days: int, nodes: int, people: int) -> Iterator[str]:
    """What the rules have written in so many days."""
    times = [now - STEP * number for number in range(days * 12, 0, -1)]
    yield "# TYPE gpuadmin:use:2h gauge"
    for kind, value in KINDS.items():
        for number in range(nodes):
            for person in range(people):
                own = f'gpuadmin:use:2h{{kind="{kind}",instance="gpu{number:03}",user="p{person:03}"}}'
                for when in times:
                    if (person + number + int(when // 86400)) % (people // 3) == 0:
                        yield f"{own} {value} {when:.0f}"
    for kind in ("available", "drawn"):
        for number in range(nodes):
            for when in times:
                yield f'gpuadmin:use:2h{{kind="{kind}",instance="gpu{number:03}"}} {GPUS * STEP} {when:.0f}'
    for person in range(people):
        for when in times:
            own = f'kind="allocated",user="p{person:03}",account="group{person % 5}"'
            yield f"gpuadmin:use:2h{{{own}}} {3 * STEP} {when:.0f}"
    yield "# TYPE gpuadmin:waits:2h gauge"
    for place, bucket in enumerate(BUCKETS):
        for when in times:
            yield f'gpuadmin:waits:2h{{le="{bucket}"}} {place + 10} {when:.0f}'


def processor(port: int) -> float:
    """Seconds of a processor that Prometheus and this process have had: on a busy machine, what can be compared."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found = re.search(r"(?m)^process_cpu_seconds_total (\S+)$", text)
    assert found is not None
    return float(found[1]) + time.process_time()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("days", 365), ("nodes", 25), ("people", 60)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result: dict[str, object] = {"machine": platform.node(), "days": given.days, "gpus": given.nodes * GPUS}
    names = [f"gpu{number:03}" for number in range(given.nodes)]
    with tempfile.TemporaryDirectory() as scratch:
        directory, now = Path(scratch), time.time()
        lines = [line for name in names for line in node(name, now, gpus=GPUS)]
        storage = blocks(directory, [*lines, *recorded(now, given.days, given.nodes, given.people)], days=60)
        with prometheus(directory, storage) as port:
            site = settings(directory, now, nodes=tuple(names))
            with TestClient(board(port, OpenAccess(), site), base_url="https://monitor") as client:
                for path in ("/", *(f"/usage?span={given.days}&by={by}" for by in ("user", "account", "node"))):
                    begin, before = time.perf_counter(), processor(port)
                    answer = client.get(path, headers={"test-viewer": "p001"})
                    seconds, spent = time.perf_counter() - begin, processor(port) - before
                    assert answer.status_code == 200, answer.text[:400]
                    result[path] = {
                        "seconds": round(seconds, 3),
                        "processor": round(spent, 3),
                        "bytes": len(answer.content),
                    }
                    print(
                        f"{path}: {seconds:.2f} s, {spent:.2f} s of a processor, {len(answer.content):,} bytes of HTML"
                    )
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))
    slow = [one for one in result.values() if isinstance(one, dict) and min(one["seconds"], one["processor"]) > LIMIT]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

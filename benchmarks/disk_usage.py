"""What it costs to know what people's files take: walking all homes, and only those that have changed.

    sudo .venv/bin/python benchmarks/disk_usage.py [--homes 20] [--files 12000] [--json FILE]

Method. A btrfs in a file; small files of sizes that homes have. Each way is measured with cold caches, in processor
time of the process and its children, and on the clock, which says little on a busy machine: a first round of
gpuadmin-disk-usage, a round a day later in which one home has changed, one in which none has, and `du -s`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from _checkout import ROOT
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.measuring import measure_round
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Place, Records

from tests.support.storage import mounted

SIZES = (10, 500, 3000, 9000)
DAY = 86400.0


def fill(homes: Path, number: int, files: int) -> None:
    chosen = random.Random(1)
    subprocess.run(["btrfs", "subvolume", "create", homes], check=True, capture_output=True)
    for home in range(number):
        for part in range(files // 200):
            at = homes / f"home{home}/p{part % 6}/d{part}"
            at.mkdir(parents=True)
            for file in range(200):
                (at / f"file{file}").write_bytes(b"x" * chosen.choice(SIZES))


def cold(point: Path) -> None:
    subprocess.run(["btrfs", "filesystem", "sync", point], check=True, capture_output=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")


def cost(point: Path, function: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a processor, and on the clock."""
    cold(point)
    before, begin = os.times(), time.perf_counter()
    function()
    wall, after = time.perf_counter() - begin, os.times()
    return sum(after[:4]) - sum(before[:4]), wall


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of knowing what people's files take.")
    parser.add_argument("--homes", type=int, default=20)
    parser.add_argument("--files", type=int, default=12000, help="of each home")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "disk_usage.json", help="where the figures go")
    options = parser.parse_args()
    found: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(prefix="gpuadmin-bench-") as name, ExitStack() as stack:
        point = stack.enter_context(mounted(Path(name) / "disk", Path(name) / "point", 4096))
        homes, records = point / "homes", Records()
        fill(homes, options.homes, options.files)
        place = Place("homes", str(homes))
        began = time.time()

        def one_round(days: int) -> Callable[[], object]:
            return lambda: [*measure_round([place], records, 3600, lambda: began + days * DAY)]

        (point / "another").touch()
        found["first round"] = cost(point, one_round(0))
        (homes / "home3/p0/d0/file0").write_bytes(b"y" * 7000)
        found["one home has changed"] = cost(point, one_round(1))
        (point / "another").write_bytes(b"x")
        cold(point)
        one_round(2)()
        found["nothing has changed"] = cost(point, one_round(3))
        # last, because it leaves in every directory when it was read
        found["du -s"] = cost(point, lambda: subprocess.run(["du", "-s", homes], check=True, capture_output=True))
    inodes = sum(part.inodes for record in records.values() for part in record.people.values())
    print(f"{options.homes} homes, {inodes} inodes\n\n| | processor, s | clock, s | processor, µs per inode |")
    print("| --- | ---: | ---: | ---: |")
    for key, (processor, wall) in found.items():
        print(f"| {key} | {processor:.2f} | {wall:.2f} | {processor / inodes * 1e6:.1f} |")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"inodes": inodes, **found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

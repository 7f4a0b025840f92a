"""How long people wait for their new uids: gpuadmin's walk beside `find -uid -exec chown`, in one run (needs root): for
many people at least 3 times as fast.

    .venv/bin/python benchmarks/renumber.py [--files 1000000] [--people 1,10,40] [--json FILE]

Method. `files` empty files lie in directories of 100 on an ext4 in a file, freshly mounted with cold caches before each
of the two ways, and belong to P people in equal parts. What an admin does by hand is
`find TOP -uid OLD -exec chown -h NEW:NEW {} +` for each of them. gpuadmin then gives everybody the old uid again, by
the code that hosts run: one walk for all people, with as many processes as there are processors, which reads ACLs
and capabilities, too; then, as on a host, inodes are dropped from memory, and a second walk must find none of the ids.
`change` is the first walk and a sync, `proof` the second; find ends with a sync, too, and proves nothing.
Leaves with 1 where gpuadmin is not 3 times as fast (change and proof together) for the largest number of people: find
walks once for each of them. For one person what remains is chown itself, which is the kernel's time in both, divided
by the number of processors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _checkout import ROOT

from gpuadmin.takeover.node.renumbering import work
from gpuadmin.takeover.node.renumbering.crawl import count_workers, crawl
from gpuadmin.takeover.node.renumbering.journal import Plan, Renumbering
from gpuadmin.takeover.node.renumbering.task import Tally

GOAL = 3
OLD, NEW = 20000, 30000
IN_DIRECTORY = 100


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def make(top: Path, files: int, people: int) -> None:
    """Homes of `people` people with their part of the files; they belong to the old uids."""
    for person in range(people):
        for directory in range(files // people // IN_DIRECTORY):
            place = top / f"p{person}" / f"d{directory // 100}" / f"e{directory}"
            place.mkdir(parents=True, exist_ok=True)
            for number in range(IN_DIRECTORY):
                os.close(os.open(place / f"f{number}", os.O_CREAT | os.O_WRONLY))
    own(top, people)
    os.sync()


def own(top: Path, people: int) -> None:
    for person in range(people):
        run("chown", "-hR", f"{OLD + person}:{OLD + person}", top / f"p{person}")


def processor() -> float:
    """Seconds of processor time that this process and those that it waited for have had."""
    return sum(os.times()[:4])


def seconds(image: Path, point: Path, *actions: Callable[[], object]) -> list[tuple[float, float]]:
    """Seconds on the clock and of processors that each action takes, one after the other, on the file system, which is
    mounted anew, with cold caches, and synced after each."""
    run("mount", "-o", "loop,noatime", image, point)
    found = []
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
        for action in actions:
            begin, used = time.perf_counter(), processor()
            action()
            run("sync", "-f", point)
            found.append((time.perf_counter() - begin, processor() - used))
        return found
    finally:
        run("umount", point)


def with_find(point: Path, people: int) -> None:
    for person in range(people):
        new = f"{NEW + person}:{NEW + person}"
        run("find", point, "-xdev", "-uid", str(OLD + person), "-exec", "chown", "-h", new, "{}", "+")


def walk(point: Path, people: int, *, apply: bool) -> Tally:
    """One walk of the boot unit: it changes, or looks whether the disk has what was changed."""
    plan = Plan.of([Renumbering(f"p{one}", NEW + one, OLD + one, NEW + one) for one in range(people)])
    handle = os.open(point, os.O_RDONLY | os.O_DIRECTORY)
    with tempfile.TemporaryDirectory() as journal:
        try:
            if not apply:
                Path(work.DROP_CACHES).write_text("2")
            return crawl(handle, plan.task(1, "x", apply), directory=journal)
        finally:
            os.close(handle)


def measure(directory: Path, files: int, people: int) -> dict[str, Any]:
    image, point = directory / "disk", directory / "mounted"
    point.mkdir(exist_ok=True)
    with image.open("wb") as stream:
        stream.truncate(files * 1024 + (512 << 20))
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-N", str(files + files // 20 + 1000), image)
    run("mount", "-o", "loop,noatime", image, point)
    try:
        make(point, files, people)
    finally:
        run("umount", point)
    found: list[Tally] = []
    ((by_find, find_used),) = seconds(image, point, lambda: with_find(point, people))
    (change, change_used), (proof, proof_used) = seconds(
        image,
        point,
        lambda: found.append(walk(point, people, apply=True)),
        lambda: found.append(walk(point, people, apply=False)),
    )
    if found[0].changed < files or found[1].uids:
        raise SystemExit(f"{found[0].changed} of {files} changed hands, and then {found[1].uids} were left")
    image.unlink()
    return {
        "people": people, "files": files, "find": by_find, "change": change, "proof": proof,
        "find, processor": find_used, "change, processor": change_used, "proof, processor": proof_used,
        "ratio of processor time": find_used / (change_used + proof_used),
        "ratio of the change": by_find / change, "ratio": by_find / (change + proof),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--people", default="1,10,40")
    parser.add_argument("--json", type=Path, default=ROOT / "build/benchmark-renumber.json")
    options = parser.parse_args()
    rows = []
    print("people  files    find -exec chown   change    proof    × (change)   × (with proof)   × (processor)")
    with tempfile.TemporaryDirectory() as directory:
        for people in map(int, options.people.split(",")):
            row = measure(Path(directory), options.files, people)
            rows.append(row)
            print(
                f"{people:6}  {row['files']:7}  {row['find']:10.1f} s     {row['change']:6.1f} s {row['proof']:6.1f} s"
                f"   {row['ratio of the change']:6.1f} ×   {row['ratio']:6.1f} ×"
                f"          {row['ratio of processor time']:6.1f} ×"
            )
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps({"processors": count_workers(), "rows": rows}, indent=1))
    return 0 if rows[-1]["ratio"] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())

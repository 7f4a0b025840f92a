"""How long until homes are empty: gpuadmin's wipe beside `rm -rf`, on the same homes, in the same run (needs root).

    .venv/bin/python benchmarks/wipe.py [--users 200] [--files 5000] [--json FILE]

Method. Homes are made once on a btrfs in a file: every user has `files` files of 500 bytes in 50 directories. The file
is copied, so that both begin with the same file system, freshly mounted, with cold caches. Both make a read-only
snapshot first. Then the wiki's `rm -rf` deletes every home but the admin's; gpuadmin's code does what it does in a
reset: homes are out of sight after one rename each, and are deleted afterwards, each file only if the backup has it.
What is compared is the time until no home is left for anybody to see. Leaves with 1 where gpuadmin needs more than
a twentieth.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from _checkout import ROOT
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes as wipe

from gpuadmin.common.records.backups import BackupOrder
from gpuadmin.common.records.wipes import WipeHomes

LIMIT = 1 / 20
ADMIN = "admin"
BACKUP = "20261221T010203Z-reset-2026-2"
FIRST_UID = 20000


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def mounted(image: Path, point: Path) -> Iterator[None]:
    point.mkdir(exist_ok=True)
    run("mount", "-o", "loop,noatime", image, point)
    try:
        yield
    finally:
        run("umount", point)


def make_homes(root: Path, users: int, files: int) -> None:
    """Homes of `users` people with `files` small files each, and the admin's."""
    run("btrfs", "subvolume", "create", root)
    content = b"x" * 500
    for number in range(users):
        home = root / f"user{number}"
        for directory in range(50):
            place = home / f"d{directory}"
            place.mkdir(parents=True)
            for file in range(files // 50):
                (place / f"f{file}").write_bytes(content)
        os.chown(home, FIRST_UID + number, FIRST_UID + number)
    (root / ADMIN).mkdir()
    os.sync()


def seconds(action: Callable[[], object]) -> float:
    """Seconds that something takes, with cold caches."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def with_rm(point: Path) -> dict[str, float]:
    """The wiki's way: a snapshot, then rm -rf of all but the admin's."""
    homes = [path for path in sorted((point / "homes").iterdir()) if path.name != ADMIN]
    snapshot = seconds(lambda: run("btrfs", "subvolume", "snapshot", "-r", point / "homes", point / "2026-12-21-wipe"))
    return {"snapshot": snapshot, "empty": seconds(lambda: [run("rm", "-rf", home) for home in homes])}


def with_gpuadmin(point: Path, users: int) -> dict[str, float]:
    """What a reset does on the storage host."""
    people = [f"user{number}" for number in range(users)]
    request = BackupOrder(
        root=str(point / "homes"), directory=str(point / "backups"), name=BACKUP, mountpoint=str(point), users=people
    )
    wanted = WipeHomes(
        str(point / "homes"), str(point / "backups"), BACKUP,
        [{"name": name, "uid": FIRST_UID + number} for number, name in enumerate(people)], str(point),
    )  # fmt: skip
    figures = {"backup": seconds(lambda: making.create(request))}
    plan: list[wipe.Plan] = []
    figures["empty"] = seconds(lambda: plan.append(wipe.converge(wanted)))
    assert plan[0].conflicts == []
    left = sorted(path.name for path in (point / "homes").iterdir())
    assert left == [wipe.TRASH, ADMIN], left
    done: list[dict[str, wipe.Purged]] = []
    figures["deleted"] = seconds(lambda: done.append(wipe.empty_trash(wanted)))
    assert sum(one.kept for one in done[0].values()) == 0
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description="Wiping homes, beside rm -rf.")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--files", type=int, default=5000, help="files of each user")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "wipe.json", help="where the figures go")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="gpuadmin-wipe-"))
    try:
        image, point = base / "disk", base / "srv"
        with image.open("wb") as stream:
            stream.truncate(max(2 << 30, options.users * options.files * 8192))
        run("mkfs.btrfs", "-q", image)
        with mounted(image, point):
            begin = time.perf_counter()
            make_homes(point / "homes", options.users, options.files)
            print(
                f"{options.users * options.files} files of {options.users} users: {time.perf_counter() - begin:.0f} s"
            )
        run("cp", "--sparse=always", image, base / "copy")
        # the same file system twice must not be mounted twice at once
        with mounted(base / "copy", point):
            theirs = with_rm(point)
        (base / "copy").unlink()
        with mounted(image, point):
            ours = with_gpuadmin(point, options.users)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    ratio = ours["empty"] / theirs["empty"]
    print("| step | rm -rf | gpuadmin |\n| --- | ---: | ---: |")
    print(f"| snapshot (gpuadmin: and manifests, verified) | {theirs['snapshot']:.2f} s | {ours['backup']:.2f} s |")
    print(f"| until homes are empty | {theirs['empty']:.2f} s | {ours['empty']:.2f} s |")
    print(f"| until they are deleted (in the background) | | {ours['deleted']:.2f} s |")
    print(f"\nHomes are empty after {ratio:.4f} of the time of rm -rf; at most {LIMIT} is promised.")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "method": "one run of each, cold caches, btrfs in a file", "users": options.users, "files": options.files,
        "rm_s": theirs, "gpuadmin_s": ours, "ratio": ratio, "limit": LIMIT,
    }  # fmt: skip
    options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

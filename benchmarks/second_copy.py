"""What a second copy of homes costs, and whether it ends: gpuadmin's own stream against btrfs send, restic and borg.

    sudo .venv/bin/python benchmarks/second_copy.py [--files 10000] [--json FILE]

Method. Two btrfs in files on this machine are the two hosts; no network is between them. An honest home of so many
files (one in fifty is changed between the two copies) and three hostile ones are backed up twice, and each method makes
a copy of the first set and then of the second one: a path of 4,200 bytes; a sparse file of 7 EiB whose one block moves
from 1 EiB to 6 EiB; 700 directories in each other with names of 250 bytes. A method that takes longer than 60 seconds,
or sends more than 2 GiB, is ended. The site has one home, so btrfs send of the whole set and of a subvolume for each
home are the same here. Bytes are what the copy's disk holds afterwards. Trust the ratios of one run, not its seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _checkout import ROOT
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import transfer
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup

from tests.support.deep_tree import plant
from tests.support.storage import Storage, mounted, run

SECONDS, MOST = 60, 2 << 30
NAMES = ("20261101T010203Z-daily", "20261102T010203Z-daily")
SERVER = """
import os, sys
sys.path.insert(0, {collections!r})
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import copy_server
os.environ["SSH_ORIGINAL_COMMAND"] = sys.argv[1]
sys.exit(copy_server.main({directory!r}, 14))
"""


def honest(home: Path, files: int, *, again: bool) -> None:
    chance = random.Random(1)
    for number in range(files):
        path = home / f"d{number % 97}" / f"f{number}"
        path.parent.mkdir(exist_ok=True)
        data = chance.randbytes(chance.choice([200, 4000, 30_000]))
        if not again:
            path.write_bytes(data)
        elif number % 50 == 0:
            path.write_bytes(data[::-1])


def long_path(home: Path, _files: int, *, again: bool) -> None:
    if again:
        (home / "more").write_bytes(b"x")
    else:
        plant(home, ["x" * 250] * 17)


def sparse(home: Path, _files: int, *, again: bool) -> None:
    with (home / "sparse").open("wb") as stream:
        stream.truncate(7 << 60)
        stream.seek((6 if again else 1) << 60)
        stream.write(b"x" * 4096)


def deep(home: Path, _files: int, *, again: bool) -> None:
    if again:
        (home / "more").write_bytes(b"x")
    else:
        plant(home, ["y" * 250] * 700)


HOMES: dict[str, Callable[..., None]] = {"honest": honest, "long path": long_path, "sparse": sparse, "deep": deep}


def own(sets: list[Backup], number: int, there: Path) -> None:
    program = SERVER.format(collections=str(ROOT / "gpuadmin/collections"), directory=str(there / "copies"))
    remote = transfer.Remote("there", (sys.executable, "-c", program))
    lacking = transfer.send(sets[number], remote, sets[:number])[1]
    if lacking:
        raise RuntimeError(str(lacking))


def shell(script: str, **names: object) -> None:
    """Run a script, ended when it takes too long."""
    done = subprocess.run(
        ["timeout", "-k", "5", str(SECONDS), "bash", "-c", f"set -e -o pipefail; {script}"],
        env={**os.environ, **{key: str(value) for key, value in names.items()}}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-120:]}")


def whole(sets: list[Backup], number: int, there: Path) -> None:
    target = there / NAMES[number]
    target.mkdir()
    parent = f"-p {sets[number - 1].path}/homes" if number else ""
    shell(f'btrfs send -q {parent} {sets[number].path}/homes | head -c {MOST} | btrfs receive -q "$to"', to=target)


def restic(sets: list[Backup], number: int, there: Path) -> None:
    init = "restic init -q;" if not number else ""
    shell(f'{init} restic backup -q "$homes"', homes=f"{sets[number].path}/homes", RESTIC_REPOSITORY=there / "r",
          RESTIC_PASSWORD="x", RESTIC_CACHE_DIR=there / "c")  # fmt: skip


def borg(sets: list[Backup], number: int, there: Path) -> None:
    init = 'borg init -e none "$BORG_REPO";' if not number else ""
    shell(f'{init} borg create --sparse "::n{number}" "$homes"', homes=f"{sets[number].path}/homes",
          BORG_REPO=there / "b", BORG_BASE_DIR=there / "base")  # fmt: skip


METHODS = {"own": own, "btrfs send": whole, "restic": restic, "borg": borg}


def used(point: Path) -> int:
    run("sync", "-f", point)
    space = os.statvfs(point)
    return (space.f_blocks - space.f_bfree) * space.f_frsize


def measure(home: Callable[..., None], files: int, place: Path) -> dict[str, object]:
    result: dict[str, object] = {}
    with mounted(place / "disk", place / "srv", 4096) as here:
        storage = Storage(here)
        path = storage.home("minji", 20001, {})
        sets = []
        for number, name in enumerate(NAMES):
            home(path, files, again=bool(number))
            sets.append(storage.backup(name, verify=[]))
        result["manifest"] = sum(Path(one.manifest("minji")).stat().st_size for one in sets)
        for method, copy in METHODS.items():
            if method in ("restic", "borg") and not shutil.which(method):
                continue
            with mounted(place / "disk2", place / method.replace(" ", "-"), 4096) as there:
                result[method] = [one_copy(copy, sets, number, there) for number in range(len(sets))]
    return result


def one_copy(copy: Callable[..., None], sets: list[Backup], number: int, there: Path) -> dict[str, object]:
    begun, before = time.monotonic(), used(there)
    try:
        copy(sets, number, there)
        outcome = "ok"
    except (RuntimeError, OSError) as error:
        outcome = str(error)
    return {"outcome": outcome, "seconds": round(time.monotonic() - begun, 2), "bytes": used(there) - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {}
    for name, home in HOMES.items():
        with tempfile.TemporaryDirectory() as place:
            found[name] = measure(home, given.files, Path(place))
            print(name, json.dumps(found[name], indent=1), flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

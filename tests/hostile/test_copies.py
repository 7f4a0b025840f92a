"""Second copies, restores and backups under attack, with the other disk nearly full, and a host that hangs.

Everybody honest has their copy, the same night and as it was; whoever has none is hostile, and named.
"""

import os
import threading
import time
from collections.abc import Sequence

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    home_manifest,
    home_reader,
    restore,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import Bounds
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.backup_keeper import Keeper, keeper
from tests.support.hostile_scene import BUDGET, HONEST, HOSTILE, SECOND, SEEDS, Scene, ending, scene, wanted

pytestmark = pytest.mark.btrfs
THIRD = "20261229T010203Z-daily"


def copied(it: Scene, other: Keeper, made: Backup | None, earlier: Sequence[Backup], what: str) -> None:
    if made is None:
        it.expect(False, f"{what}: there is no backup")
        return
    # two processes begin for each home, while others take all of the machine that they can get
    sent = it.verb(what, lambda: transfer.send(made, other.remote, earlier), seconds=4 * BUDGET)
    if sent is None:
        return
    lacking = sent[1]
    it.expect(set(lacking) <= set(HOSTILE), f"{what}: {lacking}")
    it.culprits(what, [f"{name}: {why}" for name, why in lacking.items()])
    there = other.sets.get(made.name)
    for name in HONEST:
        same = there is not None and name in there.homes and checksum(there, name) == made.homes[name].checksum
        it.expect(same, f"{what}: the copy of {name} is not there, or not as it was")


def checksum(made: Backup, name: str) -> str:
    return home_manifest.total(home_reader.lines(made.home(name), form=made.format)).checksum


def nearly_full(other: Keeper, left: int) -> None:
    """Fill the other disk but for so many bytes above its reserve."""
    space = os.statvfs(other.point)
    room = space.f_bavail * space.f_frsize - space.f_blocks * space.f_frsize // 20 - left
    with (other.point / "filler").open("wb") as stream:
        for _ in range(max(room, 0) >> 20):
            stream.write(os.urandom(1 << 20))
    os.sync()


@pytest.mark.parametrize("seed", SEEDS)
def test_second_copies_under_attack(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = seed or time.time_ns() % 10**8
    monkeypatch.setattr(backup_set, "now", lambda: "2026-12-31T00:00:00Z")
    monkeypatch.setenv("TEST_NOW", "2026-12-31T00:00:00Z")
    with scene(seed) as it, keeper(it.base, 256) as other:
        nearly_full(other, 60 << 20)
        it.start("sora", ["/bin/sleep", "1000"])
        # copies are made from what is read-only: the attack has to be there, not to be fast
        it.attack(pause=0.2)
        first = it.verb("backup", it.storage.backup)
        copied(it, other, first, [], "the first copy")
        second = it.verb("a second backup", lambda: it.storage.backup(SECOND, verify=[]))
        copied(it, other, second, [one for one in (first,) if one], "the second copy")
        hanging(it, first)
        for name in ("jiho", "sora"):
            if first is not None:
                backup_set.remove(str(it.storage.directory), first.name)
                first = None
            target = it.out / f"{name}-from-afar"
            asked = wanted(it, name, remote=other.remote, mode="directory", target=str(target))
            if it.verb(f"restore-home {name} from the second copy", lambda asked=asked: restore.execute(asked)):
                it.same(f"{name}'s home, restored from the second copy,", it.before[name], target)
        ending(it)
        it.done()


def hanging(it: Scene, made: Backup | None) -> None:
    """A host that accepts and says nothing: backups are made and homes restored meanwhile, and it is given up."""
    if made is None:
        return
    words: list[str] = []

    def copy(script: str, idle: float) -> None:
        try:
            transfer.send(made, transfer.Remote("nas2", ("sh", "-c", script), Bounds(idle=idle, total=600)), [])
        except NodeError as error:
            words.append(str(error))

    over = it.base / "over"
    copying = threading.Thread(target=copy, args=(f"until [ -e {over} ]; do sleep 0.1; done", 600))
    copying.start()
    it.verb("restore-home jiho beside a copy that hangs", lambda: restore.execute(wanted(it, "jiho", path="notes")))
    it.verb("a backup beside a copy that hangs", lambda: it.storage.backup(THIRD, verify=[]))
    it.expect(copying.is_alive(), "a restore and a backup waited for a copy that hangs")
    over.touch()
    copying.join(60)
    it.verb("a copy to a host that hangs", lambda: copy("exec sleep 600", 2))
    it.expect("stood still" in "".join(words[-1:]), f"a host that hangs was not given up: {words}")

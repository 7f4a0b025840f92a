"""The smallest programs for what the attack has found: one test for each defect, so that it stays found."""

import fcntl
import os
import resource
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, restore, snapshots

from gpuadmin.common.records.backups import RestoreOrder
from tests.support import independent
from tests.support.hostile_person import SUBVOL_CREATE
from tests.support.hostile_scene import limit
from tests.support.storage import FIRST, Storage, mounted, run

pytestmark = pytest.mark.btrfs
MINJI, JIHO = ("minji", 20001), ("jiho", 20002)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with mounted(tmp_path / "disk", tmp_path / "srv", 2048) as point:
        yield Storage(point)


@pytest.mark.holds("an empty place of a subvolume lacks nothing")
def test_a_snapshot_of_a_subvolume_that_holds_another_one(storage: Storage) -> None:
    """Whoever makes one has an empty directory with the inode of a subvolume's place; it is nothing that is missing."""
    home = storage.home(*MINJI)
    run("btrfs", "subvolume", "create", home / "volume")
    run("btrfs", "subvolume", "create", home / "volume/deeper")
    (home / "volume/deeper/inside").write_bytes(b"in it")
    run("btrfs", "subvolume", "snapshot", home / "volume", home / "snapshot")
    Storage.give(home / "volume", 20001)
    os.chown(home / "snapshot", 20001, 20001)
    before = independent.manifest(str(home))
    backup = storage.backup()
    assert backup.problems == {}
    assert backup.homes["minji"].verified
    _plan, purged = storage.wipe_all(MINJI)
    assert (purged["minji"].words, storage.names) == ([], [])
    request = RestoreOrder(
        str(storage.root), str(storage.directory), "minji", FIRST, mountpoint=str(storage.point), mode="in-place"
    )
    restore.execute(request)
    assert independent.differences(before, independent.manifest(str(home))) == []


def subvolume(above: int, name: str) -> int:
    """Make one, and return it opened."""
    fcntl.ioctl(above, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, name.encode())))
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)


def others_are_saved(storage: Storage, name: str = FIRST) -> None:
    backup = storage.backup(name)
    assert backup.homes["jiho"].verified
    assert set(backup.problems) <= {"minji"}


@pytest.fixture
def as_in_a_unit() -> Iterator[None]:
    """Few open files; a service of systemd, or a login, has 1024."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("as_in_a_unit")
def test_subvolumes_in_subvolumes(storage: Storage) -> None:
    """As deep as somebody likes: neither the recursion nor the open files of root's programs end before it does."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    here = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(200):
        inner = subvolume(here, "v")
        os.close(here)
        here = inner
    os.close(here)
    others_are_saved(storage)
    plan, _purged = storage.wipe_all(JIHO, MINJI)
    assert {words.partition(":")[0] for words in plan.conflicts} <= {"minji", "home minji"}
    assert "jiho" not in storage.names


def test_very_many_subvolumes(storage: Storage) -> None:
    """Making one costs its owner a tenth of what saving it costs root: that one home takes too long, and no other."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    here = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    begun = time.monotonic()
    number = 0
    while time.monotonic() - begun < 4 and number < 3000:
        os.close(subvolume(here, f"v{number}"))
        number += 1
    os.close(here)
    with limit(90):
        others_are_saved(storage)


@pytest.mark.holds("a home has so many subvolumes and no more")
def test_one_subvolume_too_many(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the machine is: more than so many are that home's problem, and the next home is saved."""
    monkeypatch.setattr(snapshots, "SUBVOLUMES", 3)
    for person, count in ((MINJI, 4), (JIHO, 3)):
        home = storage.home(*person)
        for number in range(count):
            run("btrfs", "subvolume", "create", home / f"v{number}")
    backup = storage.backup()
    assert backup.problems == {"minji": "holds more than 3 subvolumes"}
    assert set(backup.homes) == {"jiho"}
    assert len(list((Path(backup.path) / "nested").iterdir())) == 6, "none is made for what is too many"


@pytest.mark.holds("a subvolume that is not in the backup is a problem")
def test_a_subvolume_that_no_snapshot_was_made_of(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes one while the others are listed: the home is not backed up without what is in it."""
    home = storage.home(*MINJI)
    run("btrfs", "subvolume", "create", home / "late")
    (home / "late/work").write_bytes(b"of today")
    storage.home(*JIHO)
    monkeypatch.setattr(snapshots.btrfs, "nested", lambda *_: iter(()))
    others_are_saved(storage)
    assert "minji" not in backup_set.load(str(storage.directory), FIRST).homes

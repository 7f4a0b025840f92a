"""The smallest programs for what the attack has found: one test for each defect, so that it stays found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import restore

from tests.hostile import independent
from tests.unit.node.storage import FIRST, Storage, mounted, run

pytestmark = pytest.mark.btrfs
MINJI = ("minji", 20001)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        yield Storage(point)


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
    storage.wipe_all(MINJI)
    request = restore.Request(
        str(storage.root), str(storage.directory), "minji", FIRST, "in-place", mountpoint=str(storage.point)
    )
    restore.execute(request)
    assert independent.differences(before, independent.manifest(str(home))) == []

"""The snapshots of a backup: what is odd about a subvolume is its home's problem."""

from __future__ import annotations

import fcntl
import os
import struct

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import snapshots

from tests.support.deep_tree import descend, plant
from tests.support.hostile_person import SUBVOL_CREATE
from tests.support.storage import JIHO, MINJI, Storage, run


@pytest.mark.btrfs
def test_a_subvolume_that_cannot_be_saved_is_its_home_s_problem(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    run("btrfs", "subvolume", "create", home / "data")
    real = btrfs.snapshot

    def failing(source: int, target: str) -> None:
        if "/nested/" in target:
            raise OSError(2, "No such file or directory")
        real(source, target)

    monkeypatch.setattr(btrfs, "snapshot", failing)
    backup = storage.backup()
    assert (list(backup.homes), "cannot be saved" in backup.problems["minji"]) == (["jiho"], True)


@pytest.mark.btrfs
def test_a_link_on_the_way_to_a_subvolume_is_not_followed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the kernel's answer and the snapshot a person puts a link to somebody else's in the way."""
    home, other = storage.home(*MINJI), storage.home(*JIHO)
    for one in (home, other):
        (one / "d").mkdir()
        run("btrfs", "subvolume", "create", one / "d/data")
    (other / "d/data/secret").write_bytes(b"jiho's")
    real = btrfs.open_deep

    def moved(path: str | bytes, at: int) -> int:
        if path == "minji/d/data" and not (home / "e").exists():
            (home / "d").rename(home / "e")
            (home / "d").symlink_to("../jiho/d")
        return real(path, at)

    monkeypatch.setattr(btrfs, "open_deep", moved)
    backup = storage.backup()
    assert (list(backup.homes), list(backup.problems)) == (["jiho"], ["minji"])


@pytest.mark.btrfs
def test_subvolumes_at_paths_that_no_backup_json_holds_are_a_problem(storage: Storage) -> None:
    """Their paths are in backup.json, which another host takes up to a length, and in each line of the manifest."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    levels = ["x" * 255] * 300
    plant(home, levels)
    handle = descend(home, levels)
    try:
        fcntl.ioctl(handle, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, b"sub")))
    finally:
        os.close(handle)
    backup = storage.backup()
    assert list(backup.homes) == ["jiho"]
    assert backup.problems == {"minji": f"holds subvolumes at paths of more than {snapshots.NAMES} bytes together"}

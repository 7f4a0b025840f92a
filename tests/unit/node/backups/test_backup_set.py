"""A set of backups as it is recorded: two who record lose nothing, and a set that goes stays gone."""

import json
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.storage import FIRST, MINJI, SECOND, Storage, run


@pytest.mark.btrfs
def test_of_two_who_record_neither_is_lost(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy is recorded between the other's reading and writing."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    real = backup_set.store
    others: list[threading.Thread] = []

    def slow(given: backup_set.Backup) -> None:
        if not others:
            others.append(threading.Thread(target=backup_set.copied, args=(backup, "later", "2026-12-22T01:02:03Z")))
            others[0].start()
            time.sleep(0.5)  # the other one comes to the lock meanwhile
        real(given)

    monkeypatch.setattr(backup_set, "store", slow)
    backup_set.copied(backup, "first", "2026-12-22T01:02:03Z")
    others[0].join()
    (found,) = backup_set.complete(str(storage.directory))
    assert set(found.copies) == {"first", "later"}


@pytest.mark.btrfs
def test_a_set_that_goes_is_not_recorded_again(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    others: list[threading.Thread] = []
    real, unlinked = backup_set.store, threading.Event()

    def deleting(paths: list[str]) -> None:
        unlinked.set()
        time.sleep(0.5)  # the other one comes to the lock meanwhile

    def slow(given: backup_set.Backup) -> None:
        others.append(threading.Thread(target=backup_set.remove, args=(str(storage.directory), backup.name)))
        others[0].start()
        unlinked.wait(0.5)
        real(given)

    monkeypatch.setattr(btrfs, "delete", deleting)
    monkeypatch.setattr(backup_set.shutil, "rmtree", lambda path: None)
    monkeypatch.setattr(backup_set, "store", slow)
    backup_set.copied(backup, "first", "2026-12-22T01:02:03Z")
    others[0].join()
    assert backup_set.complete(str(storage.directory)) == []


def test_a_link_in_place_of_a_set_is_not_deleted_through(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "backup.json").write_text("{}")
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / FIRST).symlink_to(other)
    backup_set.remove(str(tmp_path / "backups"), FIRST)
    assert (other / "backup.json").exists()


def test_a_set_of_a_format_to_come_is_not_guessed_at() -> None:
    document = {
        "format": backup_set.FORMAT + 1, "created": "2026-12-21T01:02:03Z", "root": "/srv/homes", "inside": "homes",
        "homes": {}, "problems": {}, "copies": {},
    }  # fmt: skip
    with pytest.raises(NodeError, match="this code knows"):
        backup_set.parse("/srv/backups", FIRST, json.dumps(document))


@pytest.mark.btrfs
@pytest.mark.parametrize("finished", [False, True])
def test_a_deletion_that_is_cut_leaves_no_set(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, finished: bool
) -> None:
    """Of one that was being made, or whose making was cut just before its end, the snapshots go first."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    backup_set.store(backup, backup_set.UNFINISHED)
    if not finished:
        (Path(backup.path) / "backup.json").unlink()

    def cut(paths: list[str]) -> None:
        run("btrfs", "subvolume", "delete", *paths)
        raise OSError("the power is gone")

    monkeypatch.setattr(btrfs, "delete", cut)
    with pytest.raises(OSError, match="power"):
        backup_set.remove(str(storage.directory), FIRST)
    monkeypatch.undo()
    backup_set.tidy(str(storage.directory), SECOND)
    assert backup_set.complete(str(storage.directory)) == []


@pytest.mark.parametrize("name", ["../20261221T010203Z-daily", "20261221T010203Z-daily/..", "", "notes"])
@pytest.mark.holds("a set is loaded by a name that is one")
def test_a_name_that_is_none_leads_to_no_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(NodeError, match="not the name of a backup"):
        backup_set.load(str(tmp_path), name)

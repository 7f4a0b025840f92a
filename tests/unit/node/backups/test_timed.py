"""The timer's backup, which nobody watches."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    making,
    restore,
    timed,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.copy_stream import Bounds, NoRoom

from gpuadmin.common.records.backups import BackupHost, BackupOrder
from tests.support.backup_keeper import keeper
from tests.support.storage import FIRST, JIHO, MINJI, SECOND, Storage, mounted, wanted

NAS2 = BackupHost("nas2", "127.0.0.1", "/k", "/h")


@pytest.mark.btrfs
def test_the_timer_s_backup(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        storage = Storage(point)
        storage.home("minji", 20001)
        kept = storage.backup()
        settings = {
            "root": str(storage.root), "directory": str(storage.directory), "mountpoint": str(point), "workers": 1,
            "ordinary": "1", "remote": None, "of another release": 1,
        }  # fmt: skip
        (tmp_path / "backups.json").write_text(json.dumps(settings))
        assert timed.make(storage.order(ordinary=1), "20250101T000000Z-daily") == "20250101T000000Z-daily"
        assert timed.main(str(tmp_path), timed.make) == 0
        names = [one.name.partition("-")[2] for one in backup_set.complete(str(storage.directory))]
        assert sorted(names) == ["daily", kept.name.partition("-")[2]]
        assert not (storage.directory / "20250101T000000Z-daily").exists()
        assert timed.main(str(tmp_path / "nowhere"), timed.make) == 1


@pytest.mark.btrfs
def test_what_one_home_lacks_is_said(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(2000)})
    storage.home(*JIHO)
    timed.make(storage.order(workers=2, ordinary=3, home_seconds=600, home_entries=1000), SECOND)
    said = capsys.readouterr()
    assert "Warning: minji holds more than 1000 entries (backups.home_entries): not backed up" in said.err
    assert "1 home" in said.out


@pytest.mark.btrfs
def test_a_full_disk_heals_by_what_may_go(storage: Storage) -> None:
    """What is old goes before the new one is made, which there would be no room for."""
    home = storage.home("minji", 20001, {"big": b""})
    for number in (1, 2, 3):
        (home / "big").write_bytes(os.urandom(45 << 20))
        storage.backup(f"2026120{number}T010203Z-daily", verify=[])
    (home / "big").write_bytes(b"small again")
    space = os.statvfs(storage.point)
    filler = storage.point / "filler"
    room = space.f_bavail * space.f_frsize - (space.f_blocks * space.f_frsize) // 20
    with filler.open("wb") as stream:
        for _ in range(max(0, room + (4 << 20)) >> 20):
            stream.write(os.urandom(1 << 20))
    os.sync()
    with pytest.raises(backup_set.NodeError, match="no backup was begun"):
        storage.backup(SECOND, verify=[])
    timed.make(storage.order(ordinary=1), SECOND)
    assert [one.name for one in backup_set.complete(str(storage.directory))][-1] == SECOND


@pytest.mark.btrfs
def test_a_manifest_without_room_is_that_home_s_problem(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    real = making._written

    def full(order: BackupOrder, backup: backup_set.Backup, name: str) -> Any:
        if name == "minji":
            Path(backup.manifest(name)).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        return real(order, backup, name)

    monkeypatch.setattr(making, "_written", full)
    made = storage.backup()
    assert set(made.homes) == {"jiho"}
    assert "has no room for its manifest" in made.problems["minji"]
    assert not Path(made.manifest("minji")).exists()


@pytest.mark.btrfs
def test_a_backup_host_that_hangs_stops_no_backup(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a restore: the second copy has a unit and a lock of its own."""
    storage.home(*MINJI)
    storage.backup()
    asked, over = tmp_path / "asked", tmp_path / "over"
    script = f"touch {asked}; until [ -e {over} ]; do sleep 0.1; done; exit 1"
    hanging = transfer.Remote("nas2", ("sh", "-c", script), Bounds(idle=300, total=300))
    monkeypatch.setattr(transfer, "connect", lambda _: hanging)
    settings = storage.order(ordinary=1, remote=NAS2)
    said: list[Exception] = []

    def copy() -> None:
        try:
            timed.copy(settings)
        except backup_set.NodeError as error:
            said.append(error)

    copying = threading.Thread(target=copy)
    copying.start()
    while not asked.exists():
        assert copying.is_alive()
        time.sleep(0.05)  # until the thread is at it
    try:
        timed.make(settings, SECOND)
        restore.execute(wanted(storage))
        assert copying.is_alive(), "they waited for it"
    finally:
        over.touch()
        copying.join(60)
    assert "nas2: list" in str(said[0])


@pytest.mark.btrfs
@pytest.mark.usefixtures("end_of_the_year")
def test_the_copy_goes_on_with_what_was_made_meanwhile(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home(*MINJI)
    storage.backup()
    with keeper(tmp_path) as other:
        real = transfer.send

        def slowly(backup: backup_set.Backup, *more: Any) -> Any:
            if backup.name == FIRST:
                storage.backup(SECOND, verify=[])
            return real(backup, *more)

        monkeypatch.setattr(transfer, "send", slowly)
        monkeypatch.setattr(transfer, "connect", lambda _: other.remote)
        timed.copy(storage.order(ordinary=1, remote=NAS2))
        assert list(other.sets) == [FIRST, SECOND]
    found = backup_set.complete(str(storage.directory))
    assert [set(one.copies) for one in found] == [{"nas2"}, {"nas2"}]


@pytest.mark.btrfs
def test_what_is_read_stays_and_is_named(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    storage.home(*MINJI)
    storage.backup("20250101T000000Z-daily", verify=[])
    with backup_set.reading(str(storage.directory), "20250101T000000Z-daily"):
        timed.make(storage.order(ordinary=1), SECOND)
        assert "20250101T000000Z-daily is in use" in capsys.readouterr().out
        assert len(backup_set.complete(str(storage.directory))) == 2
    timed.make(storage.order(ordinary=1), "20261229T010203Z-daily")
    assert [one.name for one in backup_set.complete(str(storage.directory))] == ["20261229T010203Z-daily"]


@pytest.mark.holds("a manifest leaves room")
@pytest.mark.btrfs
def test_a_manifest_leaves_a_reserve(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home whose manifest would take of it is a problem. Where that is so of all there is no set."""
    storage.home(*MINJI)
    storage.home(*JIHO)
    asked: list[str] = []

    def room(path: str | int, *_: object) -> None:
        asked.append(str(path))
        if len(asked) in full:
            raise NoRoom("less would stay free")

    monkeypatch.setattr(making, "check_room", room)
    monkeypatch.setattr(making, "each", lambda work, tasks, *_, **__: [(one, work(one)) for one in tasks])
    request = storage.request(SECOND, [])
    full = (2, 3)  # after the set was begun
    with pytest.raises(backup_set.NodeError, match="has no room for the manifests"):
        making.create(request)
    assert backup_set.names(str(storage.directory)) == []
    asked.clear()
    full = (3, 4)  # one is written, the other has no room, then or later
    made = making.create(request)
    assert (set(made.homes), set(made.problems)) == ({"jiho"}, {"minji"})

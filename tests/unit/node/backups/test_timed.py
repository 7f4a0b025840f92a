"""The timer's backup, which nobody watches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, timed

from tests.unit.node.storage import JIHO, SECOND, Storage, mounted


@pytest.mark.btrfs
def test_the_timer_s_backup(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        storage = Storage(point)
        storage.home("minji", 20001)
        kept = storage.backup()
        settings = {
            "root": str(storage.root), "directory": str(storage.directory), "mountpoint": str(point), "workers": 1,
            "ordinary": 1, "remote": None,
        }  # fmt: skip
        (tmp_path / "backups.json").write_text(json.dumps(settings))
        assert timed.make(settings, "20250101T000000Z-daily") == "20250101T000000Z-daily"
        assert timed.main(str(tmp_path)) == 0
        names = [one.name.partition("-")[2] for one in backup_set.complete(str(storage.directory))]
        assert sorted(names) == ["daily", kept.name.partition("-")[2]]
        assert not (storage.directory / "20250101T000000Z-daily").exists()
        assert timed.main(str(tmp_path / "nowhere")) == 1


@pytest.mark.btrfs
def test_what_one_home_lacks_is_said(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(2000)})
    storage.home(*JIHO)
    timed.make({
        "root": str(storage.root), "directory": str(storage.directory), "mountpoint": str(storage.point), "workers": 2,
        "ordinary": 3, "home_seconds": 600, "home_entries": 1000,
    }, SECOND)  # fmt: skip
    said = capsys.readouterr()
    assert "Warning: minji holds more than 1000 entries (backups.home_entries): not backed up" in said.err
    assert "1 home" in said.out

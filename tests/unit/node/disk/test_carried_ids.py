"""Which ids of people's something on a host carries, so that no newcomer gets them."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import (
    DesiredState,
    Record,
    Settings,
    render,
)  # fmt: skip
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import carried_ids
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.carried_ids import Places, look
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.measuring import measure_round
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Place, save
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Record as Measured
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.shares import NOBODY
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

from tests.support.operations import ask

pytestmark = pytest.mark.root

SETTINGS = Settings(uid_first=1000, uid_last=1100)
MINJI = DesiredState(SETTINGS, {"minji": Record(User("minji", 1001, 1001, home="/home/minji"))}, (("old", 1002),))
FILES = {
    "passwd": "root:x:0:0::/:/bin/sh\nminji:x:1001:1001::/:/bin/sh\nlocal:x:1003:1003::/:/bin/sh\n",
    "shadow": "",
    "group": "lab:x:1004:\n",
}


def found(tmp_path: Path, *directories: Path, backups: Path | None = None, **more: Any) -> carried_ids.Carried:
    places = Places([str(one) for one in directories], None if backups is None else str(backups))
    return look(places, SETTINGS, MINJI, FILES, str(tmp_path / "disk.json"), **more)


def owned(path: Path, uid: int, gid: int | None = None) -> Path:
    path.mkdir(parents=True)
    os.chown(path, uid, uid if gid is None else gid)
    return path


def test_accounts_and_groups_that_gpuadmin_has_not_made(tmp_path: Path) -> None:
    assert found(tmp_path).ids == {1003: "account local", 1004: "group lab"}


def test_owners_and_groups_of_two_levels(tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    owned(homes / "minji", 1001)
    owned(homes / "ghost\x1b[2J", 1050)
    owned(homes / "minji/lost", 1051, 1052)
    owned(homes / "old/x", 1002)
    owned(homes / "minji/lost/deep", 1053)
    (homes / "minji/link").symlink_to("/nowhere")
    (homes / "file").touch()
    os.lchown(homes / "minji/link", 1054, 1001)
    answer = found(tmp_path, homes, tmp_path / "missing")
    assert {uid: words for uid, words in answer.ids.items() if uid >= 1050} == {
        1050: f"{homes}/ghost\\x1b[2J", 1051: f"{homes}/minji/lost", 1052: f"{homes}/minji/lost",
        1054: f"{homes}/minji/link",
    }  # fmt: skip
    assert answer.looked == [f"{homes} (2 levels)"]
    assert answer.not_looked == []


def test_a_subordinate_id_is_its_persons(tmp_path: Path) -> None:
    base, size = SETTINGS.subid_base, SETTINGS.subid_size
    owned(tmp_path / "docker/layer", base + 60 * size + 33)
    owned(tmp_path / "docker/minji", base + 1 * size + 99, 0)
    owned(tmp_path / "docker/beyond", base + 101 * size, 0)
    answer = found(tmp_path, tmp_path / "docker")
    assert {uid: words for uid, words in answer.ids.items() if uid > 1004} == {
        1060: f"{tmp_path}/docker/layer (subordinate id {base + 60 * size + 33})"
    }


def test_what_backups_have(tmp_path: Path) -> None:
    home = backup_set.Home(1055, 1, 1, "c", None)
    for name in ("20261221T010203Z-manual", "20261222T010203Z-manual"):
        path = tmp_path / "backups" / name
        path.mkdir(parents=True)
        backup_set.store(backup_set.Backup(name, "2026-12-21T01:02:03Z", {"gone": home}, {}, {}, str(path), "/"))
    (path / "backup.json").write_text("{")
    answer = found(tmp_path, backups=tmp_path / "backups")
    assert answer.ids[1055] == f"{tmp_path}/backups/20261221T010203Z-manual/gone"
    assert answer.looked == [f"1 of the backups in {tmp_path}/backups"]
    assert "backup.json cannot be read" in answer.not_looked[0]


def test_what_the_daily_measure_found_deep_down(tmp_path: Path) -> None:
    """63 entries of 1050 were deep in a home: no first level shows them, and no tree is walked for a newcomer."""
    homes = tmp_path / "homes"
    owned(homes / "minji/a/b/c/theirs", 1050)
    os.chown(homes / "minji", 1001, 1001)
    records: dict[tuple[str, str], Measured] = {}
    list(measure_round([Place("homes", str(homes))], records, whose=lambda uid: NOBODY if uid == 1050 else uid))
    assert records[str(homes), "minji"].unowned == [1050]
    save(records, str(tmp_path / "disk.json"))
    answer = found(tmp_path, homes)
    assert answer.ids[1050] == f"something below {homes}/minji"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    assert f"{homes} (all of it, as measured on {day} or later)" in answer.looked
    (tmp_path / "disk.json").write_text("{")
    answer = found(tmp_path, homes)
    assert (1050 in answer.ids, "is damaged" in answer.not_looked[0]) == (False, True)


def test_a_record_without_owners_is_measured_again(tmp_path: Path) -> None:
    """It is from an earlier gpuadmin."""
    path = tmp_path / "disk.json"
    save({("/srv/homes", "minji"): replace(Measured({}, 1.0, 1.0), unowned=None)}, str(path))
    answer = found(tmp_path)
    assert answer.looked == []


def test_what_hangs_hides_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = tmp_path / "homes"
    owned(homes / "hangs", 1001)
    owned(homes / "minji/lost", 1051)
    real = carried_ids._entries

    def entries(path: str) -> Any:
        if path.endswith("hangs"):
            time.sleep(60)  # as a mount that does not answer
        return real(path)

    monkeypatch.setattr(carried_ids, "_entries", entries)
    monkeypatch.setattr(carried_ids, "SECONDS", 0.3)
    answer = found(tmp_path, homes)
    assert answer.ids[1051] == f"{homes}/minji/lost"
    assert answer.not_looked == [f"{homes}/hangs: did not answer in 0.3 s"]


def test_mounts_are_not_entered(tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    owned(homes / "minji/lost", 1051)
    table = f"1 1 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {homes}/minji rw - fuse.x x rw\n"
    assert 1051 not in found(tmp_path, homes, mountinfo=table).ids
    for kind in ("nfs4", "autofs"):
        there = owned(tmp_path / kind, 1051)
        away = f"{table}3 1 0:3 / {there} rw - {kind} nas:/x rw\n"
        assert found(tmp_path, there, mountinfo=away).looked == []


def test_what_quotas_say_of_a_whole_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Quotas:
        def __init__(self, device: str) -> None:
            self.device = device

        def users(self) -> list[int]:
            if self.device == "/dev/sdb":
                raise OSError(5, "Input/output error")
            return [1001, 1060]

    monkeypatch.setattr(carried_ids, "UserQuotas", Quotas)
    homes, broken = owned(tmp_path / "homes", 0), owned(tmp_path / "broken", 0)
    table = f"1 1 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {broken} rw - xfs /dev/sdb rw\n"
    answer = found(tmp_path, homes, broken, mountinfo=table)
    assert answer.ids[1060] == "something on /, by its quotas"
    assert "/ (all of it, by its quotas)" in answer.looked
    assert answer.not_looked == [f"quotas of {broken}: Input/output error"]


def test_an_entry_that_cannot_be_looked_at_hides_no_other(tmp_path: Path) -> None:
    """Root cannot stat a person's own FUSE mount."""

    class Own:
        def stat(self, **_: object) -> None:
            raise PermissionError

    owned(tmp_path / "lost", 1051)
    with os.scandir(tmp_path) as entries:
        there: Any = [Own(), *entries]
    assert list(carried_ids._facts(iter(there))) == [("lost", True, (1051, 1051))]


def test_who_fills_a_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried_ids, "MOST", 2)
    for name in "abc":
        owned(tmp_path / "homes/minji" / name, 1001)
    assert found(tmp_path, tmp_path / "homes").not_looked == [f"{tmp_path}/homes/minji: has more than 2 entries"]


def test_the_operation_says_it_where_it_is_asked(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / "etc").mkdir(exist_ok=True)
        (tmp_path / "etc" / name).write_text(text)
    state = tmp_path / "var/lib/gpuadmin"
    state.mkdir(parents=True)
    (state / "accounts.json").write_bytes(render(MINJI))
    owned(tmp_path / "homes/ghost", 1050)
    given = {"uid_first": 1000, "uid_last": 1100}
    assert "carried" not in ask("accounts", given, check=True, root=str(tmp_path))["report"]
    places = {"directories": [str(tmp_path / "homes")]}
    answer = ask("accounts", {**given, "carried": places}, check=True, root=str(tmp_path))["report"]["carried"]
    assert answer["ids"] == {
        "1003": "account local", "1004": "group lab", "1050": f"{tmp_path}/homes/ghost"
    }  # fmt: skip

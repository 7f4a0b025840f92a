"""The database of Slurm's accounting in a backup: saved with the homes, tried, and never instead of a home."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    accounting,
    accounting_restoring,
    backup_set,
    copy_stream,
    making,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.fake_mariadb import MariaDB
from tests.support.storage import FIRST, MINJI, SECOND, Storage

pytestmark = pytest.mark.btrfs
DATABASE, TRIAL = accounting.DATABASE, accounting.TRIAL


@pytest.fixture
def mariadb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MariaDB:
    found = MariaDB(tmp_path / "mariadb", monkeypatch)
    for module in (accounting, accounting_restoring):
        monkeypatch.setattr(module, "LOCK", str(tmp_path / "lock"))
    found.table(DATABASE, "job_table", "minji 12")
    found.table(DATABASE, "user_table", "minji")
    return found


def made(storage: Storage, name: str = FIRST, verify: list[str] | None = None) -> Backup:
    if not (storage.root / "minji").exists():
        storage.home(*MINJI)
    request = replace(storage.request(name, verify), accounting=True)
    plan, _ = making.plan(request)
    if backup_set.load(request.directory, name) is None:
        assert f"backup {name}: dump of the queue's accounting" + (", verify" if verify is None else "") in plan
    return making.create(request)


def dump_of(backup: Backup) -> Path:
    return Path(backup_set.source(backup, accounting.NAME)[0]) / accounting.FILE


def test_it_is_saved_and_tried(storage: Storage, mariadb: MariaDB) -> None:
    backup = made(storage)
    home = backup.homes[accounting.NAME]
    assert (home.verified is not None, home.files, backup.problems) == (True, 1, {})
    assert gzip.decompress(dump_of(backup).read_bytes()) == b"job_table minji 12\nuser_table minji\n"
    assert f"CREATE DATABASE {TRIAL}" in mariadb.log.read_text()
    assert set(mariadb.databases()) == {DATABASE}, "what was tried is gone"
    # it goes with its set
    backup_set.remove(str(storage.directory), FIRST)
    assert list(storage.directory.iterdir()) == []


def test_the_timer_tries_nothing(storage: Storage, mariadb: MariaDB) -> None:
    backup = made(storage, SECOND, [])
    assert backup.homes[accounting.NAME].verified is None
    assert not mariadb.log.exists()


@pytest.mark.holds("where the accounting cannot be saved, homes are", "a dump that was cut short is none")
def test_a_dump_that_is_cut_short_is_none_and_homes_are_saved(storage: Storage, mariadb: MariaDB) -> None:
    good = made(storage)
    mariadb.table(DATABASE, "cut", "")
    backup = made(storage, SECOND)
    assert list(backup.homes) == ["minji"]
    assert "Lost connection" in backup.problems[accounting.NAME]
    assert btrfs.listing(f"{backup.path}/nested") == {}
    # the good one is the one that is found
    assert accounting_restoring.chosen(str(storage.directory), None).name == good.name
    with pytest.raises(NodeError, match="no backup"):
        accounting_restoring.chosen(str(storage.directory), SECOND)


def test_a_disk_without_room_is_no_dump(storage: Storage, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **named: object) -> None:
        raise copy_stream.NoRoom("less than 16 GiB of the file system would stay free")

    monkeypatch.setattr(accounting, "copy_stream", full)
    backup = made(storage)
    assert (list(backup.homes), "would stay free" in backup.problems[accounting.NAME]) == (["minji"], True)


def test_a_dump_that_was_killed_is_made_again(
    storage: Storage, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(path: str) -> None:
        Path(path).write_bytes(b"half")
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(accounting, "dump", killed)
        with pytest.raises(Killed):
            made(storage)
    assert backup_set.complete(str(storage.directory)) == []
    backup = making.create(replace(storage.request(), accounting=True))
    assert backup.homes[accounting.NAME].verified
    assert len(btrfs.listing(f"{backup.path}/nested")) == 1


def test_a_persons_directory_of_that_name_is_no_home(storage: Storage, mariadb: MariaDB) -> None:
    storage.home(accounting.NAME, 20009)
    backup = made(storage)
    assert dump_of(backup).exists()
    assert backup.problems == {f"'{accounting.NAME}'": "is not a user name"}


@pytest.mark.holds("a dump is tried", "a dump is what it is restored to")
@pytest.mark.parametrize(
    ("rows", "words"), [("BROKEN", "You have an error"), ("FADED", "what was restored is not what was saved")]
)
def test_what_does_not_restore_is_not_verified(storage: Storage, mariadb: MariaDB, rows: str, words: str) -> None:
    mariadb.table(DATABASE, "job_table", rows)
    backup = made(storage)
    assert backup.homes[accounting.NAME].verified is None
    assert words in backup.problems[accounting.NAME]
    assert set(mariadb.databases()) == {DATABASE}


@pytest.mark.holds("a database that is tried leaves room to the one that runs")
def test_a_trial_leaves_room_to_the_database_that_runs(
    storage: Storage, mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "reserve_of", lambda path: 1 << 60)
    backup = made(storage)
    assert "has no room to restore" in backup.problems[accounting.NAME]
    assert f"CREATE DATABASE {TRIAL}" not in mariadb.log.read_text()


def restore(storage: Storage, name: str | None = None) -> dict[str, object]:
    return accounting_restoring.restore({"directory": str(storage.directory), "backup": name})


@pytest.mark.holds("the old accounting is kept")
def test_it_is_restored_and_what_was_there_is_kept(storage: Storage, mariadb: MariaDB) -> None:
    backup = made(storage)
    mariadb.table(DATABASE, "job_table", "nobody")
    mariadb.log.write_text("")
    words = accounting_restoring.plan(accounting_restoring.chosen(str(storage.directory), None))
    assert "verified" in words[0]
    assert words[1] == "what is there now (2 tables, 1.0 kB) stays, as slurm_acct_db_before_<time>"
    done = restore(storage)
    aside = str(done["aside"])
    assert (done["backup"], aside.startswith(f"{DATABASE}_before_")) == (FIRST, True)
    assert mariadb.databases() == {
        DATABASE: {"job_table": "minji 12", "user_table": "minji"},
        aside: {"job_table": "nobody", "user_table": "minji"},
    }
    log = mariadb.log.read_text()
    stop, rename, start = (log.index(one) for one in ("stop slurmdbd", "RENAME TABLE", "restart slurmdbd"))
    assert stop < rename < start
    assert log.count("RENAME") == 1, "all of them or none"
    assert backup.name == FIRST


def test_it_is_restored_to_a_host_that_has_lost_it(storage: Storage, mariadb: MariaDB) -> None:
    made(storage)
    for path in (mariadb.data / DATABASE).iterdir():
        path.unlink()
    (mariadb.data / DATABASE).rmdir()
    assert len(accounting_restoring.plan(accounting_restoring.chosen(str(storage.directory), None))) == 1
    assert restore(storage)["aside"] is None
    assert mariadb.databases() == {DATABASE: {"job_table": "minji 12", "user_table": "minji"}}


@pytest.mark.holds("a damaged dump is not restored")
def test_what_is_damaged_replaces_nothing(storage: Storage, mariadb: MariaDB) -> None:
    backup = made(storage)
    before = mariadb.databases()
    path = dump_of(backup)
    path.write_bytes(gzip.compress(b"job_table all for mallory\n"))
    with pytest.raises(NodeError, match="is damaged"):
        restore(storage)
    assert mariadb.databases() == before
    assert "stop slurmdbd" not in mariadb.log.read_text()


def test_what_does_not_load_replaces_nothing(storage: Storage, mariadb: MariaDB) -> None:
    mariadb.table(DATABASE, "job_table", "BROKEN")
    made(storage)
    before = mariadb.databases()
    with pytest.raises(NodeError, match="nothing was restored: mariadb: ERROR 1064"):
        restore(storage)
    assert mariadb.databases() == before
    assert "stop slurmdbd" not in mariadb.log.read_text()


@pytest.mark.holds("a name of a table is not a statement")
def test_a_table_with_an_odd_name_is_not_moved(storage: Storage, mariadb: MariaDB) -> None:
    made(storage)
    mariadb.table(DATABASE, "x` TO y", "1")
    with pytest.raises(NodeError, match="a table that Slurm does not make"):
        restore(storage)
    assert "RENAME" not in mariadb.log.read_text()
    assert mariadb.log.read_text().splitlines()[-1] == "restart slurmdbd.service slurmctld.service"

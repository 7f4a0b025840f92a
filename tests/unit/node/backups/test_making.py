"""Making and verifying a backup of all homes: what is odd about one is that home's problem, and a cut loses nothing."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import extents
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    home_manifest,
    home_reader,
    making,
    restore,
    verifying,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import to_plain
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.common.records.backups import BackupOrder
from tests.support.deep_tree import plant
from tests.support.storage import FIRST, JIHO, MINJI, SECOND, Storage, wanted


@pytest.mark.btrfs
def test_a_backup_has_a_name_of_its_own_beside_the_homes(storage: Storage) -> None:
    storage.home(*MINJI)
    for change, words in (
        ({"name": "../20261221T010203Z-x"}, "not a name for a backup"),
        ({"directory": f"{storage.root}/backups"}, "is inside of the homes"),
        ({"root": f"{storage.point}/nothing"}, "there is no"),
    ):
        with pytest.raises(NodeError, match=words):
            making.create(replace(storage.request(), **change))
    assert storage.names == ["minji"]


Results = Iterator[tuple[object, object]]


@pytest.mark.holds("a verification writes into the set as it is by now")
@pytest.mark.btrfs
def test_a_verification_takes_back_nothing_that_others_record(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads for hours, without a lock: a second copy may be ready meanwhile."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    results = making.each

    def meanwhile(*given: Any, **named: Any) -> Results:
        backup_set.copied(backup, "other", "2026-12-22T01:02:03Z")
        yield from results(*given, **named)

    monkeypatch.setattr(making, "each", meanwhile)
    found = making.verify(backup, ["minji"])
    assert found.homes["minji"].verified
    assert backup_set.load(str(storage.directory), FIRST) == found
    assert dict(found.copies) == {"other": "2026-12-22T01:02:03Z"}


@pytest.mark.holds("a set that is deleted is not made one again", "a verification writes into the set as it is by now")
@pytest.mark.btrfs
def test_a_set_that_is_deleted_while_it_is_verified_is_none_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever deletes a set first takes away what makes it one; its snapshots take longer."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    results = making.each

    def meanwhile(*given: Any, **named: Any) -> Results:
        for one in results(*given, **named):
            (Path(backup.path) / "backup.json").unlink()
            yield one

    monkeypatch.setattr(making, "each", meanwhile)
    with pytest.raises(NodeError, match="was deleted while it was read"):
        making.verify(backup, ["minji"])
    assert backup_set.complete(str(storage.directory)) == []


@pytest.mark.holds("a budget of entries", "a budget of memory")
@pytest.mark.btrfs
def test_a_home_with_too_much_is_a_problem_and_kept(storage: Storage) -> None:
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(60)})
    storage.home(*JIHO)
    backup = making.create(replace(storage.request(), home_entries=50))
    assert set(backup.homes) == {"jiho"}
    assert "more than 50 entries" in backup.problems["minji"]
    assert "more than 50 entries" in storage.wipe(MINJI).conflicts[0]
    assert making.missing(to_plain(backup)) == [f"minji {backup.problems['minji']}: not backed up"]
    # names are counted before they are all in memory, and a long path counts more than once
    small = Budget()
    small._room = 1000
    with pytest.raises(NodeError, match="names at once"):
        list(home_reader.lines(str(storage.root / "minji"), budget=small))
    plant(storage.root / "jiho", ["y" * 200] * 40)
    with pytest.raises(NodeError, match="entries"):
        list(home_reader.lines(str(storage.root / "jiho"), budget=Budget(entries=100)))


@pytest.mark.btrfs
def test_a_home_that_takes_too_long_is_a_problem_and_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the reading itself, and where the process does not even look at the clock."""
    for name, uid in (MINJI, JIHO, ("soo", 20003)):
        storage.home(name, uid, {name: b"x"})
    real = extents.pieces
    monkeypatch.setattr(making, "each", partial(making.each, grace=1.0))

    def slow(handle: int, size: int, budget: Budget) -> Iterator[tuple[int, bytes]]:
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name  # noqa: PTH115  # a target need not be a path
        if name == "minji":
            while True:
                budget.check()
        if name == "soo":
            time.sleep(600)  # stuck, until it is killed
        return real(handle, size, budget)

    monkeypatch.setattr(extents, "pieces", slow)
    begun = time.monotonic()
    backup = making.create(replace(storage.request(), home_seconds=5, workers=2))
    assert time.monotonic() - begun < 120
    assert list(backup.homes) == ["jiho"]
    assert "longer than 5 seconds" in backup.problems["minji"]
    assert "did not end within 5 seconds" in backup.problems["soo"]


@pytest.mark.btrfs
def test_a_process_that_dies_is_one_home_s_problem(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    real = home_reader.lines

    def dying(top: str, *more: object, **named: object) -> Iterator[home_manifest.Line]:
        if str(top).endswith("minji"):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(top, *more, **named)

    monkeypatch.setattr(home_reader, "lines", dying)
    backup = storage.backup()
    assert (list(backup.homes), list(backup.problems)) == (["jiho"], ["minji"])
    assert "-9" in backup.problems["minji"]


def killed(storage: Storage, attribute: str, request: BackupOrder) -> None:
    """Make a backup in a process, and kill that when jiho's home is done and minji's is not."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        real = getattr(making, attribute)

        def stuck(task: object) -> object:
            name = task.name if isinstance(task, verifying.Task) else task[2]
            if name == "minji":
                (storage.point / "reached").touch()
                time.sleep(600)  # stuck, until it is killed
            return real(task)

        setattr(making, attribute, stuck)
        making.create(request)
        os._exit(1)
    deadline = time.monotonic() + 60
    while not (storage.point / "reached").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # until the child is there
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.btrfs
def test_a_run_that_is_killed_loses_only_the_home_that_it_was_at(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    killed(storage, "_write_manifest", storage.request())
    assert backup_set.load(str(storage.directory), FIRST) is None
    with pytest.raises(NodeError, match="no complete backup"):
        storage.wipe(JIHO)
    with pytest.raises(NodeError, match="no backup"):
        restore.execute(wanted(storage, user="jiho"))
    log, real = storage.point / "log", making._write_manifest

    def logged(task: tuple[BackupOrder, backup_set.Backup, str]) -> home_manifest.Total:
        with log.open("a") as stream:
            stream.write(task[2])
        return real(task)

    monkeypatch.setattr(making, "_write_manifest", logged)
    backup = storage.backup()
    assert log.read_text() == "minji"
    assert [bool(home.verified) for home in backup.homes.values()] == [True, True]
    assert not Path(backup.path, backup_set.UNFINISHED).exists()


@pytest.mark.btrfs
def test_another_backup_ends_the_one_that_was_killed_with_what_is_done(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    killed(storage, "_write_manifest", storage.request())
    storage.backup(SECOND)
    first, second = backup_set.complete(str(storage.directory))
    assert (list(first.homes), list(first.problems), list(second.homes)) == (["jiho"], ["minji"], ["jiho", "minji"])
    assert first.homes["jiho"].verified is None
    assert making.verify(first, ["jiho"]).homes["jiho"].verified
    assert "was not reached" in storage.wipe(MINJI).conflicts[0]


@pytest.mark.btrfs
def test_a_verification_that_is_killed_keeps_what_it_found(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    killed(storage, "verify_home", storage.request())
    found = backup_set.load(str(storage.directory), FIRST)
    assert found is not None
    assert [bool(home.verified) for home in found.homes.values()] == [True, False]


@pytest.mark.holds("attributes that cannot be listed are an error")
@pytest.mark.btrfs
def test_attributes_that_cannot_be_listed_are_a_problem(storage: Storage) -> None:
    """More names than listxattr(2) gives: they would be missing in a restored home, and nobody would know."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    for number in range(300):
        os.setxattr(home / "thesis", f"user.{number:0240}", b"")
    backup = storage.backup()
    assert (list(backup.homes), list(backup.problems)) == (["jiho"], ["minji"])

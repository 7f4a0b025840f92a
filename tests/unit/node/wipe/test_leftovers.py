"""What a wipe left: reported by the next backup, and moved to the attic; on a real btrfs."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import unit
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import attic
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes, leftovers

from tests.support.failing import fail_for
from tests.support.operations import ask
from tests.support.storage import FIRST, MINJI, Storage, leftover, run

pytestmark = pytest.mark.btrfs
SECOND = "20261228T010203Z-manual"


def request(storage: Storage) -> leftovers.Request:
    return leftovers.Request(str(storage.root), str(storage.point))


def left(storage: Storage) -> Path:
    """A home that was wiped but for what was written after its backup."""
    home = storage.home("minji", 20001, {"a/thesis": b"old", "b": b"gone", "c": b"c"})
    storage.backup()
    (home / "a/thesis").write_bytes(b"newer")
    run("btrfs", "subvolume", "create", home / "volume")
    (home / "volume/inner").write_bytes(b"2")
    Storage.give(home, 20001)
    plan, purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, purged["minji"].kept) == ([], 3)
    return storage.root / homes.TRASH / FIRST / "minji"


def test_it_is_moved_to_the_attic(storage: Storage) -> None:
    place = left(storage)
    assert leftovers.names(str(storage.root)) == [f"{FIRST}/minji"]
    before = {path.relative_to(place): path.lstat().st_ino for path in place.rglob("*")}
    (one,) = leftovers.observe(request(storage))
    assert (one.user, one.uid) == ("minji", 20001)
    there = Path(str(leftovers.clear(request(storage))[f"{FIRST}/minji"].attic))
    assert there.parent == storage.root / attic.ATTIC
    assert there.name.startswith("minji-20001-")
    assert there.name.endswith("-leftover")
    assert {path.relative_to(there): path.lstat().st_ino for path in there.rglob("*")} == before
    assert storage.names == [attic.ATTIC]
    assert leftovers.clear(request(storage)) == {}


def test_every_backup_says_so_until_it_is_cleared(storage: Storage) -> None:
    left(storage)
    _words, other = making.plan(storage.request(SECOND))
    said = {f"'.gpuadmin-wiping/{FIRST}/minji'": "is what a wipe left because its backup lacks it "
            "(gpuadmin clear-leftovers)"}  # fmt: skip
    assert other == said
    assert storage.backup(SECOND).problems == said
    leftovers.clear(request(storage))
    assert storage.backup("20261229T010203Z-manual").problems == {}


@pytest.mark.holds("what is out of sight is the rest of a home where its name says so")
def test_nothing_is_moved_that_is_not_named_so(storage: Storage) -> None:
    """Only BACKUP/USER below the place that root alone can enter."""
    left(storage)
    odd = storage.root / homes.TRASH / "notes"
    odd.mkdir()
    (odd / "minji").write_bytes(b"x")
    (storage.root / homes.TRASH / FIRST / "Nobody's notes").mkdir()
    assert [one.name for one in leftovers.observe(request(storage))] == [f"{FIRST}/minji"]
    storage.root.chmod(0o777)
    with pytest.raises(NodeError):
        leftovers.clear(request(storage))


@pytest.mark.holds("one that cannot be moved keeps no other")
def test_one_that_cannot_be_moved_keeps_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = left(storage).parent
    (backup / "aaa").mkdir()
    (storage.root / homes.TRASH / "20261222T010203Z-manual").write_bytes(b"no directory")
    fail_for(
        monkeypatch, attic, "move", lambda root, path, *more: path.endswith("aaa"), OSError(5, "Input/output error")
    )
    result = ask("leftovers", vars(request(storage)))
    assert result["failed"] is True
    assert result["report"]["problems"] == [f"{FIRST}/aaa: Input/output error"]
    assert [one.partition("(")[0] for one in result["operations"]] == ["move what is left of minji "]
    assert list(backup.iterdir()) == [backup / "aaa"]
    assert [path.name.partition("-")[0] for path in (storage.root / attic.ATTIC).iterdir()] == ["minji"]


@pytest.mark.holds("what a wipe is at work on is no leftover")
@pytest.mark.parametrize("check", [True, False])
def test_homes_that_a_wipe_still_deletes_are_no_leftovers(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    """A reset was interrupted, and its unit goes on: whole homes would be in the attic, and their disk as full."""
    place = left(storage)
    monkeypatch.setattr(unit, "available", lambda: True)
    monkeypatch.setattr(unit, "working", lambda name: name == "gpuadmin-wipe-homes.service")
    result = ask("leftovers", vars(request(storage)), check=check)
    assert "gpuadmin-wipe-homes.service is still deleting" in result["msg"]
    assert place.is_dir()


def test_one_that_is_in_the_attic_is_not_said_to_have_stayed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is so full that the empty directory cannot be removed."""
    left(storage)
    full = OSError(28, "No space left on device")
    fail_for(monkeypatch, leftovers.backup_set, "leave_trash", lambda _: True, full)
    (one,) = leftovers.clear(request(storage)).values()
    assert one.attic is not None
    assert Path(one.attic).is_dir()
    assert one.problem == "No space left on device"


def test_leftovers_are_not_looked_for_below_a_mount_that_is_missing(storage: Storage) -> None:
    late = leftover(storage)
    with pytest.raises(NodeError, match="nothing is mounted"):
        leftovers.clear(leftovers.Request(str(storage.root), mountpoint=str(storage.root)))
    assert late.exists()

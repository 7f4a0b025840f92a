"""A home that goes to the attic: moved by one rename, whole, to where root alone can enter, or kept with a reason."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import attic
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.directories import Entry, Request, compute

from tests.support.failing import fail_for
from tests.support.storage import MINJI, mounted, run
from tests.support.storage import Storage as Disk
from tests.unit.node.homes.conftest import Storage

WHO, JIHO = {"name": "minji", "uid": 20001}, {"name": "jiho", "uid": 20002}
pytestmark = pytest.mark.root


def names(storage: Storage) -> list[str]:
    place = storage.root / attic.ATTIC
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def test_a_home_is_moved_whole(storage: Storage) -> None:
    inode = storage.home().stat().st_ino
    check = storage.run(archive=[WHO], check=True)
    assert [path.name for path in storage.root.iterdir()] == ["minji"]
    real = storage.run(archive=[WHO])
    assert real.operations == check.operations == [f"home minji: move minji to {storage.root}/.gpuadmin-attic"]
    assert (real.conflicts, real.homes["minji"].status) == ([], "archived")
    (place,) = (storage.root / attic.ATTIC).iterdir()
    assert place.name.startswith("minji-20001-20")
    assert (place.stat().st_ino, (place / "data").read_text()) == (inode, "precious")
    assert place.parent.stat().st_mode & 0o7777 == 0o700
    again = storage.run(archive=[WHO])
    assert (again.operations, again.homes["minji"].status) == ([], "archived")


def test_an_archive_of_an_earlier_gpuadmin_counts_and_one_of_a_restore_does_not(storage: Storage) -> None:
    storage.archive.mkdir()
    stamp = "20261221T010203Z"
    for rest in (f"20001-restored-{stamp}.tar.gz", f"20009-{stamp}.tar.gz", f"20001-{stamp}.tar.gz.part",
                 f"20001-{stamp}-leftover.tar.gz"):  # fmt: skip
        (storage.archive / f"minji-{rest}").touch()
    assert storage.run(archive=[WHO]).homes["minji"].status == "absent"
    (storage.archive / f"minji-20001-{stamp}.tar.zst").touch()
    assert storage.run(archive=[WHO]).homes["minji"].status == "archived"


def test_what_an_earlier_gpuadmin_was_deleting_goes_to_the_attic_too(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have what no archive has."""
    for name in ("minji", ".minji.gpuadmin-removed", ".minji.gpuadmin-removed-0123456789abcdef"):
        storage.home(name)
    storage.home(".minji.gpuadmin-removed.kept")
    stamps = iter(["A", "A", "B", "B", "C"])
    monkeypatch.setattr(time, "strftime", lambda *_: next(stamps))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert storage.run(archive=[WHO]).conflicts == []
    assert names(storage) == ["minji-20001-A", "minji-20001-B", "minji-20001-C"], "one of a name replaces none"
    assert sorted(path.name for path in storage.root.iterdir()) == [attic.ATTIC, ".minji.gpuadmin-removed.kept"]


NOT_THEIRS: dict[str, Callable[[Path], object]] = {
    "of another": lambda home: os.chown(home, 20002, 20002),
    "a link": lambda home: (home.rename(home.with_name("other")), home.symlink_to("other")),
    "half of another's": lambda home: os.chown(home.rename(home.with_name(".minji.gpuadmin-removed")), 20002, -1),
}


@pytest.mark.parametrize("change", NOT_THEIRS.values(), ids=NOT_THEIRS.keys())
def test_what_is_not_theirs_is_kept(storage: Storage, change: Callable[[Path], object]) -> None:
    change(storage.home())
    before = sorted(storage.root.rglob("*"))
    plan = storage.run(archive=[WHO])
    assert plan.homes["minji"].status == "conflict"
    assert str(plan.homes["minji"].problem).endswith("not 20001: kept")
    assert sorted(storage.root.rglob("*")) == before


@pytest.mark.holds("a home is archived by a name that is one")
@pytest.mark.parametrize("name", ["../other", "", ".", "a/b"])
def test_nothing_is_moved_by_a_name_that_leads_elsewhere(name: str) -> None:
    plan = compute(Request("/h", archive=[{**WHO, "name": name}]), {}, lambda *_: False)
    assert (plan.archive, plan.homes[name].status) == ([], "conflict")


def test_what_goes_is_looked_at_once_more(storage: Storage) -> None:
    home = storage.home(uid=20002)
    with pytest.raises(NodeError, match="belongs to uid 20002, not 20001: kept"):
        attic.move(str(storage.root), "minji", "minji", 20001)
    assert (home / "data").exists()


def test_a_home_that_something_is_mounted_in_is_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    home = storage.home()
    monkeypatch.setattr(attic.mounts, "read_mountinfo", lambda: f"1 0 0:1 / {home}/disk rw - ext4 /dev/a rw\n")
    plan = storage.run(archive=[WHO])
    assert plan.homes["minji"].problem == f"{home}/disk is mounted inside of {home}: kept"
    assert (home / "data").exists()


OPEN: dict[str, Callable[[Path], object]] = {
    "open to others": lambda place: (place.mkdir(), place.chmod(0o711)),
    "somebody's": lambda place: (place.mkdir(0o700), os.chown(place, 20001, 20001)),
    "a link": lambda place: (place.with_name("x").mkdir(0o700), place.symlink_to("x")),
    "a file": Path.touch,
}


@pytest.mark.parametrize("make", OPEN.values(), ids=OPEN.keys())
def test_an_attic_that_is_not_root_s_alone_takes_nothing(storage: Storage, make: Callable[[Path], object]) -> None:
    home = storage.home()
    make(storage.root / attic.ATTIC)
    assert storage.run(archive=[WHO]).homes["minji"].status == "conflict"
    assert (home / "data").exists()


@pytest.mark.holds("one home that cannot be moved keeps no other")
def test_one_that_cannot_be_moved_keeps_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home("jiho", 20002)
    storage.home()
    fail_for(monkeypatch, attic, "rename_new", lambda name, *more: name == "jiho", OSError(5, "Input/output error"))
    plan = storage.run(archive=[JIHO, WHO])
    assert plan.conflicts == ["home jiho: Input/output error"]
    assert [one.rpartition("-")[0] for one in names(storage)] == ["minji-20001"]
    assert (storage.root / "jiho/data").exists()


def test_a_power_cut_afterwards_undoes_nothing(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home()
    seen: dict[str, list[str]] = {}

    def sync(handle: int) -> None:
        seen[str(Path(f"/proc/self/fd/{handle}").readlink())] = os.listdir(handle)

    attic.open_attic(str(storage.root))
    monkeypatch.setattr(os, "fsync", sync)
    place = Path(attic.move(str(storage.root), "minji", "minji", 20001))
    assert seen == {str(place.parent): [place.name], str(storage.root): [attic.ATTIC]}


def test_a_disk_that_fails_afterwards_is_told_with_the_place(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home()
    attic.open_attic(str(storage.root))
    fail_for(monkeypatch, os, "fsync", lambda _: True, OSError(5, "Input/output error"))
    problem = storage.run(archive=[WHO]).homes["minji"].problem
    (place,) = (storage.root / attic.ATTIC).iterdir()
    assert problem == f"is {place} now, and a power cut may undo that: Input/output error"


def test_a_home_comes_into_being_beside_the_attic() -> None:
    """Somebody who comes back gets a home of the same uid."""
    entries = {attic.ATTIC: Entry("directory", 0), ".minji.gpuadmin-removed": Entry("directory", 20001)}
    plan = compute(Request("/h", users=[{**WHO, "gid": 20001}]), entries, lambda *_: False)
    assert plan.create == [("minji", 20001, 20001)]


@pytest.mark.btrfs
def test_a_home_that_is_a_subvolume_is_moved_and_is_in_no_backup(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        disk = Disk(point)
        run("btrfs", "subvolume", "create", disk.root / "minji")
        run("btrfs", "subvolume", "create", disk.root / "minji/volume")
        (disk.root / "minji/volume/thesis").write_bytes(b"precious")
        disk.home("jiho", 20002)
        Disk.give(disk.root / "minji", MINJI[1])
        run("chattr", "+i", disk.root / "minji")
        run("btrfs", "property", "set", "-ts", disk.root / "minji", "ro", "true")
        place = Path(attic.move(str(disk.root), "minji", *MINJI))
        assert (place / "volume/thesis").read_bytes() == b"precious"
        backup = making.create(disk.request())
        assert (list(backup.homes), backup.problems) == (["jiho"], {})

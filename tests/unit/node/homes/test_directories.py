"""Homes: made whole or not at all, never under an unmounted disk, deleted only after a verified archive."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import archiving as archive_home
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import directories, packing
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.directories import (
    Entry,
    Request,
    compute,
    converge,
)

from tests.machine import in_place
from tests.unit.node.homes.conftest import Storage
from tests.unit.node.storage import mounted, run

MINJI = {"name": "minji", "uid": 20001, "gid": 20001, "shell": "ignored"}
root_only = pytest.mark.root  # gives files to other users


@pytest.mark.parametrize(
    ("entries", "user", "status"),
    [
        ({}, {}, "created"),
        ({"minji": Entry("directory", 20001)}, {}, "ok"),
        ({"minji": Entry("directory", 20002)}, {}, "conflict"),
        ({"minji": Entry("symbolic link", 20001)}, {}, "conflict"),
        ({"minji": Entry("other", 20001)}, {}, "conflict"),
        ({"old-name": Entry("directory", 20001)}, {}, "conflict"),
        ({".minji.gpuadmin-new": Entry("directory", 20001)}, {}, "created"),
        ({".minji.gpuadmin-removed": Entry("directory", 20001)}, {}, "created"),
        ({".junho.gpuadmin-removed": Entry("directory", 20001)}, {}, "conflict"),
        ({}, {"uid": 0}, "conflict"),
        ({}, {"gid": 27}, "conflict"),
        ({}, {"name": "../x"}, "conflict"),
        ({}, {"name": "-rf"}, "conflict"),
        ({}, {"name": "민지"}, "conflict"),
    ],
)
def test_table(entries: dict[str, Entry], user: dict[str, object], status: str) -> None:
    plan = compute(Request("/h", [{**MINJI, **user}]), entries, lambda _name, _uid: False)
    assert [home.status for home in plan.homes.values()] == [status]
    assert bool(plan.create) == (status == "created")


def test_two_names_with_one_uid() -> None:
    plan = compute(Request("/h", [MINJI, {"name": "junho", "uid": 20001}]), {}, lambda _name, _uid: False)
    assert plan.homes["junho"].status == "conflict"
    assert len(plan.create) == 1


@root_only
def test_made_from_the_skeleton(storage: Storage) -> None:
    left = storage.root / ".minji.gpuadmin-new"
    left.mkdir()
    (left / "half").write_text("")
    check = storage.run(MINJI, {"name": "junho", "uid": 20002}, check=True)
    assert sorted(path.name for path in storage.root.iterdir()) == [".minji.gpuadmin-new"]
    real = storage.run(MINJI, {"name": "junho", "uid": 20002})
    assert real.operations == check.operations
    assert sorted(path.name for path in storage.root.iterdir()) == ["junho", "minji"]
    home = storage.root / "minji"
    assert (home.stat().st_uid, home.stat().st_gid, home.stat().st_mode & 0o777) == (20001, 20001, 0o700)
    assert sorted(path.name for path in home.iterdir()) == [".bashrc", "dir"]
    assert (home / "dir/link").is_symlink()
    assert {path.lstat().st_uid for path in home.rglob("*")} == {20001}
    assert Path("/etc/passwd").stat().st_uid == 0
    assert storage.run(MINJI).operations == []


@root_only
def test_never_under_an_unmounted_disk(storage: Storage) -> None:
    bare = "1 0 0:1 / / rw - ext4 /dev/a rw\n"
    point = str(storage.root.parent)
    for more, words in (
        ({"mountinfo": bare}, "root file system"),
        ({"mountinfo": bare, "mountpoint": point}, "nothing is mounted"),
        ({"mountpoint": "/srv"}, "not below"),
        ({"root": "/"}, "plain absolute path"),
        ({"root": f"{point}/../x"}, "plain absolute path"),
    ):
        with pytest.raises(NodeError, match=words):
            storage.run(MINJI, **more)
    assert list(storage.root.iterdir()) == []
    assert storage.run(MINJI, mountpoint=point).homes["minji"].status == "created"


@root_only
def test_a_symlinked_or_open_home_root_is_refused(storage: Storage) -> None:
    storage.root.chmod(0o777)
    with pytest.raises(NodeError, match="nobody else can write"):
        storage.run(MINJI)
    elsewhere = storage.root.parent / "elsewhere"
    storage.root.rename(elsewhere)
    storage.root.symlink_to(elsewhere)
    with pytest.raises(NodeError, match="symbolic link"):
        storage.run(MINJI)


@root_only
def test_a_missing_home_root_is_made_below_the_mount(storage: Storage) -> None:
    storage.root.rmdir()
    assert storage.run(MINJI).operations[0] == "make the home root"
    assert storage.root.stat().st_mode & 0o777 == 0o755


archiving = in_place
WHO = {"name": "minji", "uid": 20001}


@archiving
def test_archived_verified_deleted(storage: Storage) -> None:
    storage.home()
    check = storage.run(archive=[WHO], check=True)
    assert (storage.root / "minji/data").exists()
    real = storage.run(archive=[WHO])
    assert real.operations == check.operations
    assert real.conflicts == []
    assert list(storage.root.iterdir()) == []
    (archive,) = storage.archive.iterdir()
    assert archive.stat().st_mode & 0o777 == 0o600
    listing = subprocess.run(["tar", "-tf", archive], check=True, capture_output=True, text=True).stdout
    assert "minji/data" in listing
    assert storage.run(archive=[WHO]).operations == []


def after(monkeypatch: pytest.MonkeyPatch, step: str, change: Callable[[], object]) -> None:
    """Have something happen in packing after one of its steps."""
    real = getattr(packing, step)

    def done(*arguments: str) -> object:
        said = real(*arguments)
        monkeypatch.setattr(packing, step, real)
        change()
        return said

    monkeypatch.setattr(packing, step, done)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda home: (home / "data").write_text("more than precious"),
    "new": lambda home: (home / "new").write_text("precious, too"),
    "gone": lambda home: (home / "data").unlink(),
}


@archiving
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_home_that_changes_while_it_is_packed_is_kept(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    home = storage.home()
    after(monkeypatch, "_create", lambda: change(home))
    assert "still writing" in storage.run(archive=[WHO]).conflicts[0]
    assert (home / "-rf *").exists()
    assert list(storage.archive.iterdir()) == []


@archiving
def test_a_home_that_is_not_theirs_is_kept(storage: Storage) -> None:
    home = storage.home()
    os.chown(home, 20002, 20002)
    assert storage.run(archive=[WHO]).homes["minji"].status == "conflict"
    os.chown(home, 20001, 20001)
    home.rename(storage.root / "other")
    home.symlink_to("other")
    assert storage.run(archive=[WHO]).homes["minji"].status == "conflict"
    assert (home / "data").exists()
    assert not storage.archive.exists()


def members(archive: Path) -> set[str]:
    said = subprocess.run(["tar", "--list", f"--file={archive}"], check=True, capture_output=True, text=True).stdout
    return set(said.splitlines())


@archiving
def test_what_is_written_after_it_was_packed_stays_and_is_packed_next(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = storage.home()
    os.link(home / "data", home / "twin")
    after(monkeypatch, "_compare", lambda: (home / "late").write_text("precious, too"))
    problem = storage.run(archive=[WHO]).conflicts[0]
    assert "'late' was changed after it was packed" in problem
    assert "run this again" in problem
    (rest,) = storage.root.iterdir()
    assert [path.name for path in rest.iterdir()] == ["late"], "hard links go, the first and the others"
    monkeypatch.undo()
    (first,) = storage.archive.iterdir()
    first.rename(first.with_name(f"minji-20001-20260101T000000Z.{packing.suffix()}"))
    assert storage.run(archive=[WHO]).conflicts == []
    assert list(storage.root.iterdir()) == []
    one, other = sorted(storage.archive.iterdir())
    assert "./minji/twin" in members(one)
    assert [one.partition("/late")[1] for one in members(other)].count("/late") == 1


@pytest.mark.btrfs
@archiving
def test_subvolumes_in_a_home_are_packed_with_it(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "storage", 256):
        storage = Storage(tmp_path)
        home = storage.home()
        run("btrfs", "subvolume", "create", home / "volume")
        (home / "volume/thesis").write_text("precious")
        run("btrfs", "subvolume", "snapshot", "-r", home / "volume", home / "volume/frozen")
        run("chattr", "+i", home / "data", home)
        assert storage.run(archive=[WHO]).conflicts == []
        assert list(storage.root.iterdir()) == []
        (archive,) = storage.archive.iterdir()
        assert {"./minji/volume/thesis", "./minji/volume/frozen/thesis"} <= members(archive)


def cut(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is packed and renamed, and of which nothing is deleted yet."""
    storage.home()
    with monkeypatch.context() as patch:
        patch.setattr(packing, "purge", lambda *_: (_ for _ in ()).throw(OSError("cut")))
        assert "cut" in storage.run(archive=[WHO]).conflicts[0]
    (rest,) = storage.root.iterdir()
    return rest


@archiving
def test_a_cut_while_deleting_is_finished(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = cut(storage, monkeypatch)
    assert archive_home.is_rest(rest.name, "minji")
    finish = "home minji: finish deleting the archived home, after packing what no archive has"
    assert storage.run(archive=[WHO], check=True).operations == [finish]
    assert storage.run(archive=[WHO]).operations == [finish]
    assert list(storage.root.iterdir()) == []
    assert len(list(storage.archive.iterdir())) == 1
    assert storage.run(archive=[WHO]).operations == []


@archiving
def test_nobody_waits_for_an_archive(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One person's home may take hours: meanwhile another run makes the next one's."""
    storage.home()
    real = packing.pack

    def pack(path: str, target: str) -> None:
        with flocked(storage.lock, 1):
            real(path, target)

    monkeypatch.setattr(packing, "pack", pack)
    assert storage.run(archive=[WHO]).conflicts == []


@archiving
def test_another_home_than_the_one_that_was_decided_is_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home()
    monkeypatch.setattr(archive_home, "decided", lambda *_: 1)
    assert "another directory" in storage.run(archive=[WHO]).conflicts[0]
    assert (storage.root / "minji/data").exists()


@archiving
def test_another_person_s_archive_in_the_making_is_left_alone(storage: Storage) -> None:
    storage.home()
    storage.archive.mkdir()
    other = storage.archive / "minji-20001-x-20009-20260101T000000Z.tar.gz.part"
    for name in (other.name, "minji-20001-20260101T000000Z.tar.gz.part"):
        (storage.archive / name).write_text("")
    assert storage.run(archive=[WHO]).conflicts == []
    assert len(list(storage.archive.iterdir())) == 2
    assert other.exists()


def written_after(storage: Storage, path: Path) -> list[str]:
    """A late write, and then some other archive that is newer than it. Returns all that archives hold in the end."""
    path.write_text("precious, too")
    other = storage.archive / "minji-20001-20991231T000000Z.tar.gz"
    run("tar", "--create", "--gzip", f"--file={other}", "--files-from=/dev/null")
    storage.run(archive=[WHO])
    names = [name for one in storage.archive.iterdir() for name in members(one)]
    return names + [str(one.relative_to(storage.root)) for one in storage.root.rglob("*")]


@archiving
@pytest.mark.parametrize("mark", [True, False])
def test_another_archive_does_not_let_a_home_go(storage: Storage, monkeypatch: pytest.MonkeyPatch, mark: bool) -> None:
    """What a restore packed, or a copy that somebody made, is newer than a late write and does not have it."""
    rest = cut(storage, monkeypatch)
    if not mark:  # as an older gpuadmin left it
        rest = rest.rename(storage.root / ".minji.gpuadmin-removed")
    assert any(name.endswith("/late") for name in written_after(storage, rest / "late"))
    assert list(storage.root.iterdir()) == []


@archiving
@pytest.mark.parametrize(
    "change",
    [
        os.utime,
        lambda path: os.truncate(path, 10),
        lambda path: path.rename(path.with_name(f"minji-20001-20980101T000000Z.{packing.suffix()}")),
        lambda path: path.unlink(),
    ],
    ids=["touched", "cut off", "renamed", "gone"],
)
def test_an_archive_that_is_not_as_it_was_lets_nothing_go(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    rest = cut(storage, monkeypatch)
    (archive,) = storage.archive.iterdir()
    (rest / "late").write_text("precious, too")
    change(archive)
    assert storage.run(archive=[WHO]).conflicts == []
    held = [name for one in storage.archive.iterdir() if one.stat().st_size > 10 for name in members(one)]
    assert {name.rpartition("/")[2] for name in held} >= {"late", "data"}
    assert list(storage.root.iterdir()) == []


@archiving
def test_what_a_restore_packed_is_no_archived_home(storage: Storage) -> None:
    storage.archive.mkdir()
    (storage.archive / "minji-20001-restored-20261221T010203Z.tar.gz").write_text("")
    (storage.archive / "minji-20001-20261221T010203Z-leftover.tar.gz").write_text("")
    assert archive_home.archives(str(storage.archive), "minji", 20001) == []
    assert storage.run(archive=[WHO]).homes["minji"].status == "absent"


@archiving
def test_what_is_left_of_somebody_else_s_home_is_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = cut(storage, monkeypatch)
    os.chown(rest, 20002, 20002)
    assert "belongs to uid 20002" in storage.run(archive=[WHO]).conflicts[0]
    assert (rest / "data").exists()


def test_what_is_left_without_an_archive_is_packed_first() -> None:
    entries = {".minji.gpuadmin-removed": Entry("directory", 20001)}
    plan = compute(Request("/h", archive=[WHO], archive_directory="/a"), entries, lambda _name, _uid: False)
    assert plan.archive == [("minji", 20001)]
    assert "packing what no archive has" in plan.homes["minji"].operations[0]


@root_only
def test_people_of_a_directory_get_homes_by_what_the_host_knows(tmp_path: Path) -> None:
    known = {"minji": (20001, 100), "junho": (20002, 20099), "sys": (12, 12)}
    storage = Storage(tmp_path)
    people = [{"name": name, "uid": None, "gid": None} for name in ("minji", "junho", "sys", "later")]
    request = Request(str(storage.root), people, skeleton=str(storage.skeleton))
    plan = converge(request, mountinfo=storage.mountinfo, lock=storage.lock, lookup=known.get)
    assert {name: home.status for name, home in plan.homes.items()} == {
        "minji": "created", "junho": "created", "sys": "conflict", "later": "unknown",
    }  # fmt: skip
    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in storage.root.iterdir()}
    assert owners == {"minji": (20001, 20001), "junho": (20002, 20099)}
    assert len(plan.conflicts) == 1


def mounted_at(root: Path) -> str:
    return f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {root} rw - btrfs /dev/b rw\n"


@pytest.mark.root
def test_a_home_that_appears_while_others_are_made_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename would replace a directory that is empty."""
    root = tmp_path / "homes"
    root.mkdir()
    monkeypatch.setattr(directories, "sync_filesystem", lambda path: (root / "minji").mkdir())
    request = directories.Request(str(root), [{"name": "minji", "uid": 20001}], skeleton=str(tmp_path / "none"))
    with pytest.raises(NodeError, match="just appeared"):
        directories.converge(request, mountinfo=mounted_at(root), lock=str(tmp_path / "lock"))
    assert (root / "minji").stat().st_uid == os.geteuid()


def test_nobody_s_home_is_both_made_and_archived() -> None:
    who = {"name": "minji", "uid": 20001}
    request = directories.Request("/h", [who], [who], archive_directory="/a")
    plan = directories.compute(request, {"minji": directories.Entry("directory", 20001)}, lambda *_: False)
    assert (plan.archive, plan.homes["minji"].status) == ([], "conflict")


@pytest.mark.btrfs
def test_a_new_home_root_is_a_subvolume(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        request = directories.Request(
            str(point / "homes"), [{"name": "minji", "uid": 20001}], mountpoint=str(point), skeleton="/nonexistent"
        )
        directories.converge(request, lock=str(tmp_path / "lock"))
        assert "homes" in run("btrfs", "subvolume", "list", point)
        assert (point / "homes").stat().st_mode & 0o7777 == 0o755
        (point / "homes/minji").rename(point / "homes/minji.restored-20261221T010203Z")
        assert directories.converge(request, lock=str(tmp_path / "lock")).conflicts == []

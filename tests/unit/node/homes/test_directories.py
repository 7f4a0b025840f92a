"""Homes that are made, and what is left of those that went."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import creating, directories, trash
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.directories import (
    Entry,
    Request,
    compute,
    converge,
)

from tests.support.storage import mounted, run
from tests.unit.node.homes.conftest import Storage

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
        ({}, {"uid": "many"}, "conflict"),
    ],
)
def test_table(entries: dict[str, Entry], user: dict[str, object], status: str) -> None:
    plan = compute(Request("/h", users=[{**MINJI, **user}]), entries, lambda _name, _uid: False)
    assert [home.status for home in plan.homes.values()] == [status]
    assert bool(plan.create) == (status == "created")


def test_two_names_with_one_uid() -> None:
    plan = compute(Request("/h", users=[MINJI, {"name": "junho", "uid": 20001}]), {}, lambda _name, _uid: False)
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
    assert (home / "dir/link").stat().st_uid == 0
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
    storage.root.chmod(0o755)
    os.chown(storage.root, 20002, -1)
    with pytest.raises(NodeError, match="directory of root's"):
        storage.run(MINJI)
    os.chown(storage.root, 0, -1)
    elsewhere = storage.root.parent / "elsewhere"
    storage.root.rename(elsewhere)
    storage.root.symlink_to(elsewhere)
    with pytest.raises(NodeError, match="symbolic link"):
        storage.run(MINJI)
    storage.root.unlink()
    storage.root.write_text("")
    with pytest.raises(NodeError, match="directory of root's"):
        storage.run(MINJI)


@root_only
def test_a_missing_home_root_is_made_below_the_mount(storage: Storage) -> None:
    storage.root.rmdir()
    assert storage.run(MINJI).operations[0] == "make the home root"
    assert storage.root.stat().st_mode & 0o777 == 0o755


@root_only
def test_people_of_a_directory_get_homes_by_what_the_host_knows(tmp_path: Path) -> None:
    known = {"minji": (20001, 100), "junho": (20002, 20099), "sys": (12, 12)}
    storage = Storage(tmp_path)
    people = [{"name": name, "uid": None, "gid": None} for name in ("minji", "junho", "sys", "later")]
    request = Request(str(storage.root), users=people, skeleton=str(storage.skeleton))
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
    monkeypatch.setattr(creating, "sync_filesystem", lambda path: (root / "minji").mkdir())
    request = directories.Request(str(root), users=[{"name": "minji", "uid": 20001}], skeleton=str(tmp_path / "none"))
    with pytest.raises(NodeError, match="just appeared"):
        directories.converge(request, mountinfo=mounted_at(root), lock=str(tmp_path / "lock"))
    assert (root / "minji").stat().st_uid == os.geteuid()


def test_nobody_s_home_is_both_made_and_archived() -> None:
    who = {"name": "minji", "uid": 20001}
    request = directories.Request("/h", users=[who], archive=[who])
    plan = directories.compute(request, {"minji": directories.Entry("directory", 20001)}, lambda *_: False)
    assert (plan.archive, plan.homes["minji"].status) == ([], "conflict")


@pytest.mark.btrfs
def test_a_new_home_root_is_a_subvolume(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        request = directories.Request(
            str(point / "homes"),
            users=[{"name": "minji", "uid": 20001}],
            mountpoint=str(point),
            skeleton="/nonexistent",
        )
        directories.converge(request, lock=str(tmp_path / "lock"))
        assert "homes" in run("btrfs", "subvolume", "list", point)
        assert (point / "homes").stat().st_mode & 0o7777 == 0o755
        (point / "homes/minji").rename(point / "homes/minji.restored-20261221T010203Z")
        assert directories.converge(request, lock=str(tmp_path / "lock")).conflicts == []


def test_what_is_out_of_sight_is_named_by_backup_and_person(tmp_path: Path) -> None:
    assert trash.names(str(tmp_path)) == []
    place = tmp_path / trash.TRASH
    for name in ("two/minji", "one/jiho", "one/ahn", "empty"):
        (place / name).mkdir(parents=True)
    (place / "file").write_text("of nobody's")
    assert trash.names(str(tmp_path)) == ["one/ahn", "one/jiho", "two/minji"]


def test_a_backup_says_what_it_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / trash.TRASH / "one/a\nb").mkdir(parents=True)
    [(name, why)] = trash.problems(str(tmp_path)).items()
    assert "\n" not in name
    assert "clear-leftovers" in why

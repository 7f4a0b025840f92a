"""Homes: made whole or not at all, never under an unmounted disk, deleted only after a verified archive."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import archive_home
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import Entry, Plan, Request, compute, converge

MINJI = {"name": "minji", "uid": 20001, "gid": 20001, "shell": "ignored"}
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users: needs root")


class Storage:
    """A storage host below a directory: what is mounted there is said by ``mountinfo``."""

    def __init__(self, base: Path) -> None:
        self.root = base / "storage/homes"
        self.root.mkdir(parents=True)
        self.skeleton = base / "skel"
        (self.skeleton / "dir").mkdir(parents=True)
        (self.skeleton / ".bashrc").write_text("hello\n")
        (self.skeleton / "dir/link").symlink_to("/etc/passwd")
        self.archive = base / "archive"
        self.lock = str(base / "lock")
        point = base / "storage"
        self.mountinfo = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {point} rw - btrfs /dev/b rw\n"

    def run(self, *users: dict[str, object], check: bool = False, **more: object) -> Plan:
        arguments: dict = {"skeleton": str(self.skeleton), "archive_directory": str(self.archive), **more}
        mountinfo = arguments.pop("mountinfo", self.mountinfo)
        request = Request(arguments.pop("root", str(self.root)), users, **arguments)
        return converge(request, check=check, mountinfo=mountinfo, lock=self.lock)

    def home(self, name: str = "minji", uid: int = 20001) -> Path:
        path = self.root / name
        path.mkdir(mode=0o700)
        (path / "data").write_text("precious")
        (path / "-rf *").write_text("x")
        os.chown(path, uid, uid)
        return path


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


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


archiving = pytest.mark.skipif(
    os.geteuid() != 0 or Path("/run/systemd/system").is_dir(), reason="needs root; under systemd a unit does this"
)
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


@archiving
@pytest.mark.parametrize("change", ["writer", "owner", "symlink"])
def test_a_home_is_kept_unless_its_archive_is_right(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    home = storage.home()
    real_run = archive_home._run

    def run(command: tuple[str, ...]) -> None:
        real_run(command)
        if "--create" in command:
            (home / "data").write_text("more than precious")

    if change == "writer":
        monkeypatch.setattr(archive_home, "_run", run)
    elif change == "owner":
        os.chown(home, 20002, 20002)
    else:
        home.rename(storage.root / "other")
        home.symlink_to("other")
    plan = storage.run(archive=[WHO])
    assert plan.homes["minji"].status == "conflict"
    assert (home / "data").exists()
    assert not [path for path in storage.archive.glob("*") if not path.name.endswith(".part")]


@archiving
def test_a_cut_while_deleting_is_finished(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home()
    monkeypatch.setattr(archive_home.shutil, "rmtree", lambda _path: (_ for _ in ()).throw(OSError("cut")))
    assert storage.run(archive=[WHO]).conflicts
    monkeypatch.undo()
    assert [path.name for path in storage.root.iterdir()] == [".minji.gpuadmin-removed"]
    assert storage.run(archive=[WHO]).operations == ["home minji: finish deleting the archived home"]
    assert list(storage.root.iterdir()) == []
    assert storage.run(archive=[WHO]).operations == []


def test_removed_without_archive_is_never_deleted() -> None:
    entries = {".minji.gpuadmin-removed": Entry("directory", 20001)}
    plan = compute(Request("/h", archive=[WHO], archive_directory="/a"), entries, lambda _name, _uid: False)
    assert plan.archive == []
    assert plan.homes["minji"].status == "absent"


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs tar")
def test_tar_knows_the_options() -> None:
    text = subprocess.run(["tar", "--help"], check=True, capture_output=True, text=True).stdout
    for option in archive_home.tar_command("--compare", "x", "/h", "minji", zstd=True)[1:-1]:
        assert option.split("=")[0] in text


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

"""An archived home: packed, verified, and only then deleted."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import archiving, packing
from ansible_collections.gpuadmin.node.plugins.module_utils.homes.directories import Entry, Request, compute

from tests.support.machine import in_place
from tests.support.storage import mounted, run
from tests.unit.node.homes.conftest import Storage

pytestmark = pytest.mark.holds("a deletion is not before what is written meanwhile")


@pytest.mark.parametrize("name", ["../other", "", ".", "a/b"])
def test_nothing_is_archived_by_a_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    (other / "b").mkdir(parents=True)
    (tmp_path / "homes").mkdir()
    given = {"homes": str(tmp_path / "homes"), "name": name, "uid": os.getuid(), "directory": str(tmp_path / "archive"),
             "inode": other.stat().st_ino}  # fmt: skip
    with pytest.raises(NodeError, match="not a user's name"):
        archiving.archive(given)
    assert other.exists()


WHO = {"name": "minji", "uid": 20001}


@in_place
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


@in_place
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_home_that_changes_while_it_is_packed_is_kept(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    home = storage.home()
    after(monkeypatch, "_create", lambda: change(home))
    assert "still writing" in storage.run(archive=[WHO]).conflicts[0]
    assert (home / "-rf *").exists()
    assert list(storage.archive.iterdir()) == []


@in_place
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


@in_place
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
@in_place
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


@in_place
def test_a_cut_while_deleting_is_finished(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = cut(storage, monkeypatch)
    assert archiving.is_rest(rest.name, "minji")
    finish = "home minji: finish deleting the archived home, after packing what no archive has"
    assert storage.run(archive=[WHO], check=True).operations == [finish]
    assert storage.run(archive=[WHO]).operations == [finish]
    assert list(storage.root.iterdir()) == []
    assert len(list(storage.archive.iterdir())) == 1
    assert storage.run(archive=[WHO]).operations == []


@in_place
def test_nobody_waits_for_an_archive(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One person's home may take hours: meanwhile another run makes the next one's."""
    storage.home()
    real = packing.pack

    def pack(path: str, target: str) -> None:
        with flocked(storage.lock, 1):
            real(path, target)

    monkeypatch.setattr(packing, "pack", pack)
    assert storage.run(archive=[WHO]).conflicts == []


@in_place
def test_another_home_than_the_one_that_was_decided_is_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home()
    monkeypatch.setattr(archiving, "decided", lambda *_: 1)
    assert "not the directory that was decided on" in storage.run(archive=[WHO]).conflicts[0]
    assert (storage.root / "minji/data").exists()


@in_place
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


@in_place
@pytest.mark.parametrize("mark", [True, False])
def test_another_archive_does_not_let_a_home_go(storage: Storage, monkeypatch: pytest.MonkeyPatch, mark: bool) -> None:
    """What a restore packed, or a copy that somebody made, is newer than a late write and does not have it."""
    rest = cut(storage, monkeypatch)
    if not mark:  # as an older gpuadmin left it
        rest = rest.rename(storage.root / ".minji.gpuadmin-removed")
    assert any(name.endswith("/late") for name in written_after(storage, rest / "late"))
    assert list(storage.root.iterdir()) == []


@in_place
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


@in_place
def test_what_a_restore_packed_is_no_archived_home(storage: Storage) -> None:
    storage.archive.mkdir()
    (storage.archive / "minji-20001-restored-20261221T010203Z.tar.gz").write_text("")
    (storage.archive / "minji-20001-20261221T010203Z-leftover.tar.gz").write_text("")
    assert archiving.archives(str(storage.archive), "minji", 20001) == []
    assert storage.run(archive=[WHO]).homes["minji"].status == "absent"


@in_place
def test_what_is_left_of_somebody_else_s_home_is_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = cut(storage, monkeypatch)
    os.chown(rest, 20002, 20002)
    assert "belongs to uid 20002" in storage.run(archive=[WHO]).conflicts[0]
    assert (rest / "data").exists()


def test_which_archives_are_of_an_account_and_what_is_the_rest_of_a_home(tmp_path: Path) -> None:
    """An account that had the name before has archives of its own, and one that is not finished is none."""
    mine = "minji-20001-20261221T010203Z.tar.gz"
    for name in (mine, "minji-20009-20261221T010203Z.tar.gz", "minji-20001-20261221T010204Z.tar.gz.part"):
        (tmp_path / name).touch()
    assert archiving.archives(str(tmp_path), "minji", 20001) == [mine]
    for name, expected in (
        ("", True),
        ("-0123456789abcdef", True),
        (".kept", False),
        ("-0123456789abcdef.kept", False),
    ):
        assert archiving.is_rest(f".minji.gpuadmin-removed{name}", "minji") is expected


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_directory_is_no_home(tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / "minji").symlink_to("other")
    else:
        (tmp_path / "minji").touch()
    with pytest.raises(NodeError, match="is not a directory"):
        archiving.home_state(str(tmp_path / "minji"), os.getuid())


@pytest.mark.root
def test_a_power_cut_leaves_no_half_home_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "homes/minji"
    home.mkdir(parents=True)
    (home / "data").write_text("precious")
    seen: list[object] = []
    delete = packing.delete
    monkeypatch.setattr(
        archiving, "sync_directory", lambda path: seen.append([one.name for one in Path(path).iterdir()])
    )
    monkeypatch.setattr(packing, "delete", lambda path, archive: (seen.append("deleted"), delete(path, archive))[1])
    given = {"homes": str(home.parent), "name": "minji", "uid": os.getuid(), "directory": str(tmp_path / "archive"),
             "inode": home.stat().st_ino}  # fmt: skip
    archive = str(archiving.archive(given))
    assert seen == [[f".minji.gpuadmin-removed-{packing.mark(archive)}"], "deleted"]


def test_what_is_left_without_an_archive_is_packed_first() -> None:
    entries = {".minji.gpuadmin-removed": Entry("directory", 20001)}
    plan = compute(Request("/h", archive=[WHO], archive_directory="/a"), entries, lambda _name, _uid: False)
    assert plan.archive == [("minji", 20001)]
    assert "packing what no archive has" in plan.homes["minji"].operations[0]

"""Restoring and copying, on a real btrfs: what comes back is what was there, and nothing that is there is lost."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background, btrfs, extents, mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    copy_server,
    home_manifest,
    home_reader,
    making,
    restore,
    snapshots,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import home_owner
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import attic

from gpuadmin.common.records.backups import RestoreOrder
from tests.support.failing import fail_for
from tests.support.hostile_home import hostile
from tests.support.operations import ask
from tests.support.storage import FIRST, JIHO, MINJI, SECOND, Storage, flip, run, wanted

pytestmark = [pytest.mark.btrfs, pytest.mark.usefixtures("end_of_the_year")]


def look(request: RestoreOrder) -> tuple[str, ...]:
    """What a restore says that it would do."""
    plan, _backup, _away = restore.look(request, mounts.read_mountinfo())
    return plan.operations


def checksum(path: Path) -> str:
    return home_manifest.total(home_reader.lines(str(path))).checksum


def test_beside_what_is_there(storage: Storage) -> None:
    home = storage.home(*MINJI)
    hostile(home)
    before = checksum(home)
    storage.backup()
    (home / "thesis").write_bytes(b"newer")
    done = restore.execute(wanted(storage))
    copy = Path(str(done["target"]))
    assert copy == storage.root / "minji.restored-20261221T010203Z"
    assert checksum(copy) == before
    assert (home / "thesis").read_bytes() == b"newer"
    assert copy.stat().st_uid == 20001
    with pytest.raises(NodeError, match="is there already"):
        restore.execute(wanted(storage))
    assert sorted(storage.names) == [restore.RESTORING, "minji", "minji.restored-20261221T010203Z"]


def test_a_wiped_home_comes_back_with_what_was_nested(storage: Storage) -> None:
    home = storage.home(*MINJI)
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"1")
    (home / "data/link").symlink_to("set")
    os.chown(home / "data", 20001, 20001)
    before = sorted(line.sealed() for line in home_reader.lines(str(storage_copy(storage))))
    storage.backup()
    storage.wipe_all(MINJI)
    done = restore.execute(wanted(storage, mode="in-place"))
    assert done["aside"] is None
    assert sorted(line.sealed() for line in home_reader.lines(str(home))) == before
    done = restore.execute(wanted(storage, path="data"))
    assert Path(str(done["target"]), "set").read_bytes() == b"1"


def storage_copy(storage: Storage) -> Path:
    """minji's home as plain directories, to compare with."""
    copy = storage.point / "copy"
    run("cp", "-a", storage.root / "minji", copy)
    return copy


def test_in_place_keeps_what_is_there(storage: Storage) -> None:
    home = storage.home("minji", 20001, {"a/b": b"old", "c": b"c"})
    storage.backup()
    (home / "a/b").write_bytes(b"new")
    kept, restored = look(wanted(storage, mode="in-place", path="a/b"))
    assert kept == f"keep what is there now as {home}/a/b.before-20261221T010203Z"
    assert restored.endswith(f" to {home}/a/b")
    done = restore.execute(wanted(storage, mode="in-place", path="a/b"))
    assert (home / "a/b").read_bytes() == b"old"
    assert Path(str(done["aside"])).read_bytes() == b"new"
    done = restore.execute(wanted(storage, mode="in-place"))
    assert (Path(str(done["aside"])) / "a/b").read_bytes() == b"old"
    assert (home / "a/b").read_bytes() == b"old"


def test_a_person_with_another_uid(storage: Storage) -> None:
    home = storage.home(*MINJI)
    (home / "image").write_bytes(b"x")
    os.chown(home / "image", 2147483648 + 65536 + 7, 0)
    (home / "program").write_bytes(b"x")
    os.chown(home / "program", 20001, 20001)
    (home / "program").chmod(0o4755)
    storage.backup()
    done = restore.execute(wanted(storage, uid=20077, subids=(2147483648, 65536, 20000)))
    copy = Path(str(done["target"]))
    assert (copy.stat().st_uid, (copy / "thesis").stat().st_gid) == (20077, 20077)
    assert (copy / "image").stat().st_uid == 2147483648 + 77 * 65536 + 7
    assert (copy / "program").stat().st_mode & 0o7777 == 0o4755


def test_a_part_of_a_home_that_is_shared_and_of_another_uid(storage: Storage) -> None:
    """The part's top belongs to nobody in question; what is in it does."""
    home = storage.home(*MINJI)
    (home / "shared").mkdir()
    (home / "shared/hers").write_bytes(b"x")
    os.chown(home / "shared/hers", 20001, 20001)
    storage.backup()
    done = restore.execute(wanted(storage, path="shared", uid=20077))
    assert Path(str(done["target"]), "hers").stat().st_uid == 20077


def test_a_file_of_the_home_has_the_new_uid_already(storage: Storage) -> None:
    home = storage.home("minji", 20001, {"hers": b"x", "theirs": b"x"})
    os.chown(home / "theirs", 20077, 20077)
    storage.backup()
    copy = Path(str(restore.execute(wanted(storage, uid=20077))["target"]))
    assert ((copy / "hers").stat().st_uid, (copy / "theirs").stat().st_uid) == (20077, 20077)


def test_a_part_with_names_of_a_file_that_begins_outside_of_it(storage: Storage) -> None:
    """Its first name in the part is a file there, the further ones are links to that."""
    home = storage.home("minji", 20001, {"a": b"x" * 5000, "part/z": b"z"})
    for name in ("one", "two"):
        os.link(home / "a", home / "part" / name)
    storage.backup()
    target = storage.point / "out"
    restore.execute(wanted(storage, path="part", mode="directory", target=str(target)))
    assert (target / "one").samefile(target / "two")
    assert (target / "two").read_bytes() == b"x" * 5000


def test_one_file_is_compared_with_the_manifest(storage: Storage) -> None:
    home = storage.home("minji", 20001, {"a/program": b"x" * 3_000_000, "z": b"z"})
    (home / "a/program").chmod(0o4755)
    os.link(home / "a/program", home / "b")  # a further name of the same file
    (home / "link").symlink_to("z")
    os.chown(home / "link", 20001, 20001, follow_symlinks=False)
    backup = storage.backup()
    for number, (path, files) in enumerate((("a/program", 1), ("b", 1), ("link", 0))):
        target = storage.point / f"out{number}"
        done = restore.execute(wanted(storage, path=path, mode="directory", target=str(target), uid=20077))
        assert (done["files"], target.lstat().st_uid) == (files, 20077)
        assert done["checksum"]
    assert (storage.point / "out1").stat().st_mode & 0o7777 == 0o4755
    flip(backup.home("minji"), "z", b"Z")
    with pytest.raises(NodeError, match=r"'\.' differs in content"):
        restore.execute(wanted(storage, path="z"))
    assert "minji.restored-20261221T010203Z" not in storage.names


@pytest.mark.parametrize(("place", "name"), [(restore, "rename_new"), (os, "fsync")])
def test_a_disk_that_fails_after_a_home_was_put_aside_says_where_it_is(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    storage.home(*MINJI)
    storage.backup()
    aside = storage.root / "minji.before-20261221T010203Z"
    fail_for(monkeypatch, place, name, lambda *_: aside.exists(), OSError(28, "No space left on device"))
    with pytest.raises(NodeError) as caught:
        restore.execute(wanted(storage, mode="in-place"))
    assert aside.is_dir()
    assert str(caught.value) == f"No space left on device ({storage.root}/minji); what was there is {aside}"


def test_to_the_attic_for_somebody_who_is_gone(storage: Storage) -> None:
    """With its subvolumes; a second one from the same backup is refused."""
    home = storage.home("minji", 20001, {"dir/one": b"1", "thesis": b"precious"})
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"in a subvolume")
    storage.backup()
    storage.wipe_all(MINJI)
    place = Path(str(restore.execute(wanted(storage, mode="attic"))["target"]))
    assert place == storage.root / attic.ATTIC / "minji-20001-restored-20261221T010203Z"
    assert ((place / "thesis").read_bytes(), (place / "data/set").read_bytes()) == (b"precious", b"in a subvolume")
    assert (place.stat().st_uid, place.parent.stat().st_mode & 0o7777) == (20001, 0o700)
    assert storage.names == [attic.ATTIC]
    with pytest.raises(NodeError, match="is there already; move it away first"):
        restore.execute(wanted(storage, mode="attic", path="dir"))
    place.rename(storage.root / "elsewhere")
    part = Path(str(restore.execute(wanted(storage, mode="attic", path="dir"))["target"]))
    assert [path.name for path in part.iterdir()] == ["one"]


def test_nothing_goes_to_the_attic_that_is_not_what_was_backed_up(storage: Storage) -> None:
    storage.home("minji", 20001, {"dir/one": b"1", "thesis": b"precious\n"})
    flip(storage.backup().home("minji"))
    with pytest.raises(NodeError, match="'thesis' differs in content"):
        restore.execute(wanted(storage, mode="attic"))
    assert list((storage.root / attic.ATTIC).iterdir()) == []
    assert restore.execute(wanted(storage, mode="attic", path="dir"))["target"], "the rest of it is as it was"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"path": "../jiho"}, "not a path inside"),
        ({"path": ".."}, "not a path inside"),
        ({"path": "a/../.."}, "not a path inside"),
        ({"path": "a\0b"}, "not a path inside"),
        ({"path": "/etc"}, "not a path inside"),
        ({"path": "out/passwd"}, "symbolic link"),
        ({"path": "nothing"}, "not in the backup"),
        ({"user": "nobody-at-all"}, "no backup"),
        ({"user": "../x"}, "refused"),
        ({"backup": "../../x"}, "not the name of a backup"),
        ({"backup": "20200101T000000Z-x"}, "no complete backup"),
        ({"mode": "over-it"}, "refused"),
        ({"mode": "directory", "target": "relative"}, "plain absolute"),
        ({"mode": "attic", "path": "out/passwd"}, "symbolic link"),
    ],
)
def test_what_is_refused(storage: Storage, more: dict[str, object], words: str) -> None:
    home = storage.home(*MINJI)
    (home / "out").symlink_to("/etc")
    storage.backup()
    before = storage.names
    with pytest.raises(NodeError, match=words):
        restore.execute(wanted(storage, **{"target": str(storage.point / "archive"), **more}))
    assert [name for name in storage.names if name != restore.RESTORING] == before


SLIPS: dict[str, tuple[str, dict[str, object]]] = {
    "no such part": ("restore_home", {"path": "nothing"}),
    "a part behind a link": ("restore_home", {"path": "out/passwd"}),
    "no such person": ("restore_home", {"user": "nobody-at-all"}),
    "no such backup": ("restore_home", {"backup": "20200101T000000Z-x"}),
    "no plain path": ("restore_home", {"mode": "directory", "target": "relative"}),
    "a place that is there": ("restore_home", {"mode": "directory", "target": "THERE"}),
    "a place whose directory is not there": ("restore_home", {"mode": "directory", "target": "THERE/x/y"}),
    "a disk of its own": ("restore_home", {"mode": "in-place", "path": "disk/thesis"}),
    "no such backup to verify": ("backup", {"action": "verify", "name": "20200101T000000Z-x"}),
    "nobody's home to verify": ("backup", {"action": "verify", "users": ["nobody-at-all"]}),
}


@pytest.mark.parametrize(("operation", "more"), SLIPS.values(), ids=SLIPS.keys())
def test_a_slip_is_found_before_anything_is_begun(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, operation: str, more: dict[str, object]
) -> None:
    """The look refuses it, and check mode is no more than that look; the run says that it began nothing."""
    home = storage.home("minji", 20001, {"disk/thesis": b"precious"})
    (home / "out").symlink_to("/etc")
    run("btrfs", "subvolume", "create", home / "data")
    storage.backup()
    run("mount", "-t", "tmpfs", "tmpfs", home / "disk")
    target = str(more.get("target", "")).replace("THERE", str(storage.point / "there"))
    (storage.point / "there").mkdir()
    given = {"root": str(storage.root), "user": "minji", "mountpoint": str(storage.point)}
    document = {
        "directory": str(storage.directory),
        **(given if operation == "restore_home" else {}),
        **more,
        **({"target": target} if target else {}),
    }
    monkeypatch.setattr(background, "perform", lambda *_given, **_more: pytest.fail("it was begun"))
    before = storage.names
    answer = ask(operation, document)
    assert (answer["failed"], answer["operations"], answer["report"]["begun"]) == (True, [], False)
    assert ask(operation, document, check=True)["msg"] == answer["msg"]
    assert storage.names == before


@pytest.mark.holds("what this run restored is not in its own way")
@pytest.mark.parametrize("mode", ["beside", "in-place"])
def test_a_restore_that_is_asked_for_again_because_ssh_broke_is_done(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """It was "there already", so the run said that it began nothing; in place it was restored a second time."""
    storage.home(*MINJI)
    storage.backup()
    said: dict[tuple[str, str], Any] = {}

    def perform(name: str, function: Any, arguments: dict[str, Any], *, start: str) -> Any:
        return said.setdefault((name, start), function(arguments))

    monkeypatch.setattr(background, "perform", perform)
    monkeypatch.setattr(background, "said", lambda *whose: said.get(whose))
    document = {"root": str(storage.root), "directory": str(storage.directory), "user": "minji", "mode": mode,
                "run_id": "ours"}  # fmt: skip
    first = ask("restore_home", document)
    names = storage.names
    again = ask("restore_home", document)
    assert (again.get("msg"), again["changed"], again["report"]) == (None, True, first["report"])
    assert storage.names == names
    if mode == "beside":
        of_another_run = ask("restore_home", {**document, "run_id": "another's"})
        assert (of_another_run["failed"], of_another_run["report"]["begun"]) == (True, False)


@pytest.mark.holds("only what failed before it began says so")
def test_what_stops_a_restore_that_began_does_not_say_that_nothing_was_begun(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home(*MINJI)
    storage.backup()
    document = {"root": str(storage.root), "directory": str(storage.directory), "user": "minji"}

    def stopped(*_given: object, **_more: object) -> None:
        raise NodeError("gpuadmin-restore-minji.service ended without an answer")

    monkeypatch.setattr(background, "perform", stopped)
    answer = ask("restore_home", document)
    assert answer["failed"] is True
    assert "begun" not in answer["report"]
    verified = ask("backup", {"directory": str(storage.directory), "action": "verify"})
    assert "begun" not in verified["report"]


@pytest.mark.holds("root writes where nobody else can put a link")
def test_where_others_may_write_root_does_not(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    theirs = storage.point / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    with pytest.raises(NodeError, match="nobody else may write"):
        restore.execute(wanted(storage, mode="directory", target=str(theirs / "x")))
    done = restore.execute(wanted(storage, mode="directory", target=str(storage.point / "x")))
    assert done["files"] == 1


@pytest.mark.holds("nobody else can exchange what root writes in")
def test_where_others_could_exchange_a_directory_of_root_s_root_does_not_write(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    ours = storage.point / "theirs/ours"
    ours.mkdir(parents=True)
    for uid, mode in ((20001, 0o755), (0, 0o777)):
        os.chown(ours.parent, uid, uid)
        ours.parent.chmod(mode)
        with pytest.raises(NodeError, match="theirs must belong to root"):
            restore.execute(wanted(storage, mode="directory", target=str(ours / "x")))
    # nor by a link of root's own to it
    (storage.point / "link").symlink_to(ours)
    with pytest.raises(NodeError, match="without symbolic links on the way"):
        restore.execute(wanted(storage, mode="directory", target=str(storage.point / "link/x")))
    ours.parent.chmod(0o1777)
    assert restore.execute(wanted(storage, mode="directory", target=str(ours / "x")))["files"] == 1


def test_homes_that_are_not_there(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    with pytest.raises(NodeError, match="there is no "):
        restore.execute(wanted(storage, root=f"{storage.point}/nowhere"))


@pytest.mark.holds("a verification compares the manifest with what was recorded")
def test_a_damaged_backup_is_found_and_not_restored(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    backup = storage.backup()
    flip(backup.home("minji"))
    with pytest.raises(NodeError, match="is damaged: minji: 'thesis' differs in content"):
        making.verify(backup, ["jiho", "minji"], again=True)
    found = backup_set.load(str(storage.directory), FIRST)
    assert found is not None
    assert (found.homes["minji"].verified, bool(found.homes["jiho"].verified)) == (None, True)
    with pytest.raises(NodeError, match="is not what was backed up"):
        restore.execute(wanted(storage))
    assert "minji.restored-20261221T010203Z" not in storage.names
    assert "not verified" in storage.wipe(MINJI).conflicts[0]


@pytest.mark.holds("what was changed while a snapshot was made is read again")
@pytest.mark.parametrize(("tick", "read"), [(-(10**11), "x"), (10**11, "xxxx")])
def test_what_has_not_changed_is_not_read_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, tick: int, read: str
) -> None:
    """But for what was changed while the earlier snapshot was made: that may have the new times and the old content."""
    monkeypatch.setattr(snapshots, "TICK", tick)
    home = storage.home("minji", 20001, {"a": b"1", "a.b": b"2", "a-dir/c": b"3", "z": b"4"})
    first = storage.backup(verify=[])
    (home / "z").write_bytes(b"5")
    log = storage.point / "read"  # a home is read in a process of its own
    real = extents.digest

    def reading(handle: int, size: int, budget: Budget) -> str:
        with log.open("a") as stream:
            stream.write("x")
        return real(handle, size, budget)

    monkeypatch.setattr(extents, "digest", reading)
    second = storage.backup(SECOND, verify=[])
    assert log.read_text() == read
    assert first.homes["minji"].checksum != second.homes["minji"].checksum
    assert making.verify(second, ["minji"]).homes["minji"].verified


@pytest.mark.holds("a damaged manifest of before ends no later backup")
def test_a_damaged_manifest_of_before_ends_no_later_backup(storage: Storage) -> None:
    storage.home(*MINJI)
    manifest = Path(storage.backup(verify=[]).manifest("minji"))
    manifest.write_bytes(manifest.read_bytes()[:-12])
    second = storage.backup(SECOND)
    assert second.problems == {}
    assert second.homes["minji"].verified


def in_a_subvolume(storage: Storage) -> Path:
    """A home that is a subvolume, and holds one; what is in it is newer than in the backup."""
    home = storage.root / "minji"
    run("btrfs", "subvolume", "create", home)
    run("btrfs", "subvolume", "create", home / "data")
    for name in ("thesis", "data/thesis"):
        (home / name).write_bytes(b"precious")
    storage.give(home, 20001)
    storage.backup()
    for name in ("thesis", "data/thesis"):
        (home / name).write_bytes(b"newer")
    return home


@pytest.mark.parametrize("path", ["thesis", "data/thesis"])
def test_in_place_into_a_subvolume(storage: Storage, path: str) -> None:
    """No rename leads from one subvolume into another: the copy is made in the one that it is for."""
    home = in_a_subvolume(storage)
    before = sorted(one.name for one in (home / path).parent.iterdir())
    for number in ("", "-2"):
        done = restore.execute(wanted(storage, mode="in-place", path=path))
        assert done["aside"] == str(home / f"{path}.before-20261221T010203Z{number}")
    assert (home / path).read_bytes() == b"precious"
    assert (home / f"{path}.before-20261221T010203Z").read_bytes() == b"newer"
    assert len(list((home / path).parent.iterdir())) == len(before) + 2


def test_a_place_that_becomes_a_subvolume_meanwhile(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner exchanges it while the copy is made: what is there is not put aside for nothing."""
    home = storage.home("minji", 20001, {"data/thesis": b"precious"})
    storage.backup()
    real = restore.sync_filesystem

    def exchanged(path: str) -> None:
        (home / "data").rename(home / "old")
        run("btrfs", "subvolume", "create", home / "data")
        (home / "data/thesis").write_bytes(b"newer")
        real(path)

    monkeypatch.setattr(restore, "sync_filesystem", exchanged)
    with pytest.raises(NodeError, match="was exchanged"):
        restore.execute(wanted(storage, mode="in-place", path="data/thesis"))
    assert [one.name for one in (home / "data").iterdir()] == ["thesis"]


def test_in_place_on_a_file_system_of_its_own(storage: Storage) -> None:
    """It is refused before anything is copied, with the way out."""
    home = storage.home("minji", 20001, {"data/thesis": b"precious"})
    storage.backup()
    run("mount", "-t", "tmpfs", "tmpfs", home / "data")
    with pytest.raises(NodeError, match=r"file system of its own.*without --in-place"):
        restore.execute(wanted(storage, mode="in-place", path="data/thesis"))
    assert list((home / "data").iterdir()) == []


@pytest.mark.parametrize(("uid", "mode"), [(20001, 0o700), (0, 0o755)])
def test_in_a_person_s_subvolume_root_works_in_nothing_of_theirs(storage: Storage, uid: int, mode: int) -> None:
    home = in_a_subvolume(storage)
    theirs = home / restore.RESTORING
    theirs.mkdir()
    theirs.chmod(mode)
    (theirs / "kept").write_bytes(b"x")
    os.chown(theirs, uid, uid)
    with pytest.raises(NodeError, match="is in the way"):
        restore.execute(wanted(storage, mode="in-place", path="thesis"))
    assert ((theirs / "kept").read_bytes(), (home / "thesis").read_bytes()) == (b"x", b"newer")


def test_a_workplace_that_its_owner_moves_away(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they put in its place is neither entered nor deleted."""
    home = in_a_subvolume(storage)
    theirs = home / restore.RESTORING
    real = restore.rename_new

    def moved(name: str, at: int, target: str, to: int) -> None:
        if name == restore.COPY:
            theirs.rename(home / "moved")
            theirs.mkdir()
            (theirs / restore.COPY).write_bytes(b"theirs")
        real(name, at, target, to)

    monkeypatch.setattr(restore, "rename_new", moved)
    restore.execute(wanted(storage, mode="in-place", path="thesis"))
    assert (home / "thesis").read_bytes() == b"precious"
    assert (theirs / restore.COPY).read_bytes() == b"theirs"


@pytest.mark.holds("a second part has a name of its own")
def test_a_second_part_of_a_home_has_a_place_of_its_own(storage: Storage) -> None:
    storage.home("minji", 20001, {"a": b"a", "b": b"b"})
    storage.backup()
    places = [Path(str(restore.execute(wanted(storage, path=path))["target"])) for path in ("a", "b", "a")]
    beside = "minji.restored-20261221T010203Z"
    assert [str(one.relative_to(storage.root)) for one in places] == [f"{beside}/a", f"{beside}-2/b", f"{beside}-3/a"]
    assert home_owner(f"{beside}-99") == "minji"
    assert home_owner(f"{beside}-100") is None


@pytest.mark.parametrize("asked", ["", "rm -rf /", "send 20200101T000000Z-x ../x", "show ../x",
                                   "receive ../x homes", "begin x", "verify 20200101T000000Z-x minji",
                                   "manifest 20200101T000000Z-x ../../etc/passwd", "list x"])  # fmt: skip
def test_the_other_host_takes_names_and_no_paths(tmp_path: Path, asked: str) -> None:
    with pytest.raises(NodeError):
        copy_server.serve(str(tmp_path / "copies"), asked)
    assert {path.name for path in (tmp_path / "copies").iterdir()} <= {copy_server.LOCK}


def test_removing_a_set(storage: Storage) -> None:
    home = storage.home(*MINJI)
    run("btrfs", "subvolume", "create", home / "data")
    storage.backup()
    backup_set.remove(str(storage.directory), FIRST)
    assert backup_set.names(str(storage.directory)) == []
    assert list(btrfs.nested(str(storage.point))) == ["homes", "homes/minji/data"]
    with pytest.raises(NodeError):
        backup_set.remove(str(storage.directory), "../homes")


def restoring(storage: Storage, **more: Any) -> RestoreOrder:
    request = RestoreOrder(str(storage.root), str(storage.directory), "minji", FIRST, mountpoint=str(storage.point))
    return replace(request, **more)


@pytest.mark.holds(
    "a restore believes backups of root's alone",
    "a wipe believes backups of root's alone",
    "backups are made where root alone can enter",
)
def test_backups_that_others_can_reach_are_no_proof(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    storage.directory.chmod(0o755)
    for what in (
        lambda: storage.wipe(MINJI),
        lambda: storage.backup(SECOND),
        lambda: restore.execute(restoring(storage)),
    ):
        with pytest.raises(NodeError, match="root alone"):
            what()
    assert storage.names == ["minji"]


@pytest.mark.holds("a restore's plan sees what is in its way")
def test_a_restore_says_at_once_that_something_is_in_its_way(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    restore.execute(restoring(storage))
    with pytest.raises(NodeError, match="move it away first"):
        look(restoring(storage))


@pytest.mark.holds("a part beside the home is in a directory of the person's")
@pytest.mark.parametrize("path", ["diary", "notes/diary"])
def test_a_part_beside_the_home_is_as_private_as_the_home(storage: Storage, path: str) -> None:
    home = storage.home("minji", 20001, {"diary": b"secret", "notes/diary": b"secret"})
    (home / path).chmod(0o644)
    storage.backup()
    done = restore.execute(wanted(storage, path=path, uid=20077))
    target = Path(str(done["target"]))
    assert target == storage.root / "minji.restored-20261221T010203Z/diary"
    assert (stat.S_IMODE(target.stat().st_mode), target.stat().st_uid) == (0o644, 20077)
    facts = target.parent.stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid) == (0o700, 20077, 20077)
    child = os.fork()
    if child == 0:  # somebody else
        os.setgid(20002)
        os.setuid(20002)
        try:
            target.read_bytes()
        except PermissionError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("mode", ["beside", "in-place"])
def test_what_appears_meanwhile_is_not_replaced(storage: Storage, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """An empty directory, which a rename would replace."""
    home = storage.home("minji", 20001, {"a/b": b"old"})
    storage.backup()
    place = storage.root / "minji.restored-20261221T010203Z" if mode == "beside" else home / "a"
    real = restore.rename_new

    def raced(name: str, at: int, target: str, to: int) -> None:
        if name == restore.COPY:
            place.mkdir()
        real(name, at, target, to)

    monkeypatch.setattr(restore, "rename_new", raced)
    with pytest.raises(NodeError, match="has just appeared") as caught:
        restore.execute(wanted(storage, mode=mode, path="" if mode == "beside" else "a"))
    assert list(place.iterdir()) == []
    if mode == "in-place":
        assert str(home / "a.before-20261221T010203Z") in str(caught.value)
        assert (home / "a.before-20261221T010203Z/b").read_bytes() == b"old"
    assert list((storage.root / restore.RESTORING).iterdir()) == []


@pytest.mark.parametrize("elsewhere", ["jiho", "../outside"])
def test_a_place_that_becomes_a_link_meanwhile(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, elsewhere: str
) -> None:
    """Its owner exchanges it while the copy is made: root goes nowhere for them."""
    home = storage.home("minji", 20001, {"data/thesis": b"precious"})
    theirs = storage.root / elsewhere
    theirs.mkdir()
    (theirs / "thesis").write_bytes(b"of somebody else")
    storage.backup()
    real = restore.sync_filesystem

    def exchanged(path: str) -> None:
        (home / "data").rename(home / "old")
        (home / "data").symlink_to(theirs)
        real(path)

    monkeypatch.setattr(restore, "sync_filesystem", exchanged)
    with pytest.raises(NodeError, match="nothing was restored"):
        restore.execute(wanted(storage, mode="in-place", path="data/thesis"))
    assert [(one.name, one.read_bytes()) for one in theirs.iterdir()] == [("thesis", b"of somebody else")]


def test_what_is_put_aside_replaces_nothing(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has got that name meanwhile stays, and so does what was to get it."""
    home = storage.home(*MINJI)
    storage.backup()
    (home / "thesis").write_bytes(b"newer")
    real = restore.sync_filesystem
    aside = home / "thesis.before-20261221T010203Z"

    def appears(path: str) -> None:
        aside.write_bytes(b"theirs")
        real(path)

    monkeypatch.setattr(restore, "sync_filesystem", appears)
    with pytest.raises(NodeError):
        restore.execute(wanted(storage, mode="in-place", path="thesis"))
    assert (aside.read_bytes(), (home / "thesis").read_bytes()) == (b"theirs", b"newer")


def test_what_is_restored_from_is_not_deleted_meanwhile(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    storage.backup()
    real = restore._restored

    def restored(*given: Any, **more: Any) -> Any:
        with pytest.raises(backup_set.InUse):
            backup_set.remove(str(storage.directory), FIRST)
        return real(*given, **more)

    monkeypatch.setattr(restore, "_restored", restored)
    assert restore.execute(wanted(storage))["backup"] == FIRST


@pytest.mark.holds("backups are where root alone can enter")
def test_what_root_restores_in_is_root_s_own(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    (storage.root / restore.RESTORING).mkdir()
    (storage.root / restore.RESTORING).chmod(0o755)
    with pytest.raises(NodeError, match="root alone can enter"):
        restore.execute(wanted(storage))
    storage.directory.chmod(0o755)
    with pytest.raises(NodeError, match="root alone can enter"):
        storage.backup(SECOND)


def all_of(storage: Storage, **more: Any) -> dict[str, Any]:
    """A request to bring minji's and jiho's homes back to where they were."""
    skeleton = storage.point / "skel"
    skeleton.mkdir(exist_ok=True)
    (skeleton / ".profile").write_text("new\n")
    where = {"root": str(storage.root), "directory": str(storage.directory), "mountpoint": str(storage.point)}
    homes, uids = dict.fromkeys(("minji", "jiho"), FIRST), {"minji": 20001, "jiho": 20002}
    given = {"homes": homes, "uids": uids, "subids": [2147483648, 65536, 20000], "skeleton": str(skeleton)}
    return {**where, **given, **more}


def restored(answer: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = json.loads(answer["each"]["restored_homes"])
    return found


@pytest.mark.holds("a home that somebody has used is not replaced", "check mode restores no home")
def test_all_homes_that_are_not_there(storage: Storage) -> None:
    """One is gone, one is as a new one begins; what somebody has used stays, and the same again does nothing."""
    minji, jiho = storage.home(*MINJI), storage.home(*JIHO, {"data": b"x"})
    sora = storage.home("sora", 20003, {"old": b"o"})
    storage.backup()
    for home in (minji, jiho, sora):
        shutil.rmtree(home)
    storage.home(*JIHO, {".profile": b"new\n"})
    storage.home("sora", 20003, {".profile": b"new\n", "new": b"n"})
    order = all_of(storage)
    order["homes"]["sora"], order["uids"]["sora"] = FIRST, 20003
    order["homes"]["nobody"] = FIRST
    seen = ask("restore_homes", order, check=True)
    used = "there is a home that somebody has used"
    lacking = f"no complete backup {FIRST} with a home of nobody in {storage.directory}"
    assert restored(seen) == {"minji": "", "jiho": "", "sora": used, "nobody": lacking}
    assert "failed" not in seen, "a look names them"
    assert not minji.exists()
    done = ask("restore_homes", order)
    assert restored(done) == restored(seen)
    assert (
        done["operations"]
        == seen["operations"]
        == [f"restore {name}'s home from {FIRST}" for name in ("minji", "jiho")]
    )
    assert done["msg"] == f"sora: {used}; nobody: {lacking}"
    assert (minji / "thesis").read_bytes() == b"precious\n"
    assert (jiho / "data").read_bytes() == b"x"
    assert (storage.root / "jiho.before-20261221T010203Z/.profile").read_bytes() == b"new\n", "nothing is deleted"
    assert sorted(one.name for one in sora.iterdir()) == [".profile", "new"]
    (minji / "thesis").write_bytes(b"newer")
    again = restored(ask("restore_homes", order))
    assert (again["minji"], again["jiho"]) == (used, "it was restored from this backup already")
    assert (minji / "thesis").read_bytes() == b"newer"


def test_a_backup_that_is_as_a_new_home_is_restored_once(storage: Storage) -> None:
    """Whoever never logged in has a home that looks unused afterwards, too."""
    for name, uid in (MINJI, JIHO):
        storage.home(name, uid, {".profile": b"new\n"})
    storage.backup()
    assert set(restored(ask("restore_homes", all_of(storage))).values()) == {""}
    assert set(restored(ask("restore_homes", all_of(storage))).values()) == {"it was restored from this backup already"}


def test_one_home_of_all_that_is_not_what_it_was(storage: Storage) -> None:
    minji, jiho = storage.home(*MINJI), storage.home(*JIHO)
    made = storage.backup()
    for home in (minji, jiho):
        shutil.rmtree(home)
    flip(f"{made.path}/homes/minji")
    done = ask("restore_homes", all_of(storage))
    assert "thesis" in restored(done)["minji"]
    assert restored(done)["jiho"] == ""
    assert (minji.exists(), (jiho / "thesis").exists()) == (False, True)


def test_a_link_in_place_of_a_home_is_not_followed(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    storage.backup()
    shutil.rmtree(storage.root / "minji")
    (storage.root / "minji").symlink_to("jiho")
    shutil.rmtree(storage.root / "jiho")
    (storage.root / "jiho").mkdir()
    found = restored(ask("restore_homes", all_of(storage)))
    assert found["minji"]
    assert (storage.root / "minji").is_symlink()
    odd = all_of(storage, homes={"../x": FIRST, "minji.restored-20261221T010203Z": FIRST})
    assert all("is not the name of a home" in why for why in restored(ask("restore_homes", odd)).values())

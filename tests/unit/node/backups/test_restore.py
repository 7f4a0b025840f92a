"""Restoring and copying, on a real btrfs: what comes back is what was there, and nothing that is there is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, extents
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    copy_server,
    home_manifest,
    making,
    restore,
    restore_plan,
    transfer,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import home_owner

from tests.unit.node.storage import FIRST, JIHO, MINJI, SECOND, Storage, flip, mounted, run, wanted
from tests.unit.node.wipe.test_homes import hostile

pytestmark = pytest.mark.btrfs


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is of the future is refused, and these sets have names of their own time."""
    monkeypatch.setattr(backup_set, "now", lambda: os.environ["TEST_NOW"])
    monkeypatch.setenv("TEST_NOW", "2026-12-31T00:00:00Z")


def checksum(path: Path) -> str:
    return home_manifest.total(home_manifest.lines(str(path))).checksum


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
    before = sorted(line.sealed() for line in home_manifest.lines(str(storage_copy(storage))))
    storage.backup()
    storage.wipe_all(MINJI)
    done = restore.execute(wanted(storage, mode="in-place"))
    assert done["aside"] is None
    assert sorted(line.sealed() for line in home_manifest.lines(str(home))) == before
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


def test_to_an_archive_for_somebody_who_is_gone(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    storage.wipe_all(MINJI)
    done = restore.execute(wanted(storage, mode="archive", target=str(storage.point / "archive")))
    path = Path(str(done["target"]))
    assert path.name == "minji-20001-restored-20261221T010203Z.tar.gz"
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        assert "./minji/thesis" in archive.getnames()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"path": "../jiho"}, "not a path inside"),
        ({"path": "/etc"}, "not a path inside"),
        ({"path": "out/passwd"}, "symbolic link"),
        ({"path": "nothing"}, "not in the backup"),
        ({"user": "nobody-at-all"}, "no backup"),
        ({"user": "../x"}, "refused"),
        ({"backup": "../../x"}, "not the name of a backup"),
        ({"backup": "20200101T000000Z-x"}, "no complete backup"),
        ({"mode": "directory", "target": "relative"}, "plain absolute"),
    ],
)
def test_what_is_refused(storage: Storage, more: dict[str, object], words: str) -> None:
    home = storage.home(*MINJI)
    (home / "out").symlink_to("/etc")
    storage.backup()
    before = storage.names
    with pytest.raises(NodeError, match=words):
        restore.execute(wanted(storage, **more))
    assert [name for name in storage.names if name != restore.RESTORING] == before


def test_where_others_may_write_root_does_not(storage: Storage, tmp_path: Path) -> None:
    storage.home(*MINJI)
    storage.backup()
    theirs = storage.point / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    with pytest.raises(NodeError, match="nobody else may write"):
        restore.execute(wanted(storage, mode="directory", target=str(theirs / "x")))
    done = restore.execute(wanted(storage, mode="directory", target=str(storage.point / "x")))
    assert done["files"] == 1


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


@pytest.mark.parametrize(("tick", "read"), [(-(10**11), "x"), (10**11, "xxxx")])
def test_what_has_not_changed_is_not_read_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, tick: int, read: str
) -> None:
    """But for what was changed while the earlier snapshot was made: that may have the new times and the old content."""
    monkeypatch.setattr(making, "TICK", tick)
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


def test_a_second_part_of_a_home_has_a_place_of_its_own(storage: Storage) -> None:
    storage.home("minji", 20001, {"a": b"a", "b": b"b"})
    storage.backup()
    places = [Path(str(restore.execute(wanted(storage, path=path))["target"])) for path in ("a", "b", "a")]
    beside = "minji.restored-20261221T010203Z"
    assert [str(one.relative_to(storage.root)) for one in places] == [f"{beside}/a", f"{beside}-2/b", f"{beside}-3/a"]
    assert home_owner(f"{beside}-99") == "minji"
    assert home_owner(f"{beside}-100") is None


PROGRAM = """
import sys
sys.path.insert(0, {collections!r})
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, copy_server
import os
backup_set.now = lambda: os.environ["TEST_NOW"]
os.environ["SSH_ORIGINAL_COMMAND"] = sys.argv[1]
sys.exit(copy_server.main({directory!r}, 1))
"""


@pytest.fixture
def remote(storage: Storage, tmp_path: Path) -> Iterator[tuple[transfer.Remote, Path]]:
    """Another host: another btrfs, and the forced command without the ssh in front of it."""
    collections = str(Path(transfer.__file__).parents[6])
    with mounted(tmp_path / "disk2", tmp_path / "other", 256) as point:
        program = PROGRAM.format(collections=collections, directory=str(point / "copies"))
        yield transfer.Remote("nas2", (sys.executable, "-c", program)), point / "copies"


def test_a_second_copy(storage: Storage, remote: tuple[transfer.Remote, Path]) -> None:
    there, directory = remote
    home = storage.home("minji", 20001, {"big": os.urandom(2_000_000)})
    run("btrfs", "subvolume", "create", home / "data")
    first = storage.backup()
    assert transfer.send(first, there, []).strip()
    assert set(backup_set.complete(str(directory))[0].homes) == {"minji"}
    (home / "small").write_bytes(b"x")
    second = storage.backup(SECOND)
    sizes = []
    real = subprocess.Popen

    class Counting(real):  # type: ignore[misc, type-arg, valid-type]
        def __init__(self, command: list[str], **more: object) -> None:
            sizes.append(command)
            super().__init__(command, **more)

    transfer.subprocess.Popen = Counting  # type: ignore[misc]
    try:
        transfer.send(second, there, [first])
    finally:
        transfer.subprocess.Popen = real  # type: ignore[misc]
    assert ("btrfs", "send", "--quiet", "-p", f"{first.path}/homes", f"{second.path}/homes") in sizes
    copies = backup_set.complete(str(directory))
    assert [copy.name for copy in copies] == [FIRST, SECOND]
    # a person's home can be restored there, too
    assert Path(copies[1].home("minji"), "small").read_bytes() == b"x"
    # again: nothing is sent
    assert transfer.send(second, there, [first]).strip()


def test_a_copy_that_breaks_is_none(storage: Storage, remote: tuple[transfer.Remote, Path]) -> None:
    there, directory = remote
    storage.home(*MINJI)
    backup = storage.backup()
    script = 'case "$4" in receive*) head -c 300 | "$@";; *) exec "$@";; esac'
    cutting = transfer.Remote("nas2", ("sh", "-c", script, "sh", *there.command))
    with pytest.raises(NodeError, match="was not copied"):
        transfer.send(backup, cutting, [])
    deaf = transfer.Remote("nas2", ("sh", "-c", "cat > /dev/null"))
    with pytest.raises(NodeError, match="did not say"):
        transfer.send(backup, deaf, [])
    assert backup_set.complete(str(directory)) == []
    transfer.send(backup, there, [])
    copy = backup_set.complete(str(directory))[0]
    flip(copy.home("minji"))
    with pytest.raises(NodeError, match="damaged"):
        transfer.send(backup, there, [])


def test_what_is_lost_here_comes_back_from_the_other_host(
    storage: Storage, remote: tuple[transfer.Remote, Path]
) -> None:
    there, _directory = remote
    home = storage.home("minji", 20001, {"thesis": b"precious", "big": os.urandom(1_000_000)})
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"1")
    Storage.give(home, 20001)
    sums = {FIRST: checksum_of(storage.backup())}
    transfer.send(storage_set(storage, FIRST), there, [])
    (home / "thesis").write_bytes(b"more")
    sums[SECOND] = checksum_of(storage.backup(SECOND))
    transfer.send(storage_set(storage, SECOND), there, [storage_set(storage, FIRST)])
    # what is here and verified is taken from here
    assert restore_plan.locate(wanted(storage), there)[1] is False
    for name in (FIRST, SECOND):
        backup_set.remove(str(storage.directory), name)
    # after the disk was exchanged, the timer has backed an empty home up; nobody means that one
    shutil.rmtree(home)
    storage.home("minji", 20001, {})
    storage.backup("20261229T010203Z-daily", verify=[])
    found, fetch = restore_plan.locate(wanted(storage), there)
    assert (found.name, fetch, found.homes["minji"].verified) == (SECOND, True, None)
    for name in (SECOND, FIRST):  # the first one as a difference to the second
        fetched = transfer.fetch(name, str(storage.directory), there)
        assert transfer.fetch(name, str(storage.directory), there).name == name
        assert making.verify(fetched, ["minji"]).homes["minji"].verified
        assert checksum_of(fetched) == sums[name]
    assert (home.exists(), list(home.iterdir())) == (True, [])
    restore.execute(wanted(storage, mode="in-place"))
    assert (home / "thesis").read_bytes() == b"more"
    assert (home / "data/set").read_bytes() == b"1"
    # and a new one goes there as a difference to what came back
    third = storage.backup("20261230T010203Z-manual")
    assert transfer.send(third, there, [storage_set(storage, SECOND)]).strip()


def storage_set(storage: Storage, name: str) -> backup_set.Backup:
    found = backup_set.load(str(storage.directory), name)
    assert found is not None
    return found


def checksum_of(backup: backup_set.Backup) -> str:
    return backup.homes["minji"].checksum


def test_a_fetch_that_breaks_leaves_nothing(storage: Storage, remote: tuple[transfer.Remote, Path]) -> None:
    there, directory = remote
    storage.home("minji", 20001, {"big": os.urandom(1_000_000)})
    transfer.send(storage.backup(), there, [])
    backup_set.remove(str(storage.directory), FIRST)
    cutting = transfer.Remote(
        "nas2", ("sh", "-c", 'case "$4" in send*) "$@" | head -c 3000;; *) exec "$@";; esac', "sh", *there.command)
    )
    with pytest.raises(NodeError, match="did not come from nas2"):
        transfer.fetch(FIRST, str(storage.directory), cutting)
    late = transfer.Remote(
        "nas2", ("sh", "-c", 'case "$4" in send*) "$@"; exit 3;; *) exec "$@";; esac', "sh", *there.command)
    )
    with pytest.raises(NodeError, match="did not come whole"):
        transfer.fetch(FIRST, str(storage.directory), late)
    assert backup_set.names(str(storage.directory)) == []
    deaf = transfer.Remote("nas2", ("false",))
    with pytest.raises(NodeError, match=r"no backup with a home of minji .*; and nas2: list"):
        restore_plan.locate(wanted(storage), deaf)
    with pytest.raises(NodeError, match="nor on nas2"):
        restore_plan.locate(wanted(storage, user="jiho"), there)
    flip(backup_set.complete(str(directory))[0].home("minji"), "big", b"x" * 1_000_000)
    transfer.fetch(FIRST, str(storage.directory), there)
    with pytest.raises(NodeError, match="is not what was backed up"):
        restore.execute(wanted(storage))


@pytest.mark.parametrize(
    "lie",
    [
        {"homes": {"../../etc/x": {}}},
        {"nested": {"": "../../x"}},
        {"inside": "../.."},
        {"inside": "/etc"},
        {"format": 3},
        None,
    ],
)
def test_what_the_other_host_says_is_not_trusted(storage: Storage, tmp_path: Path, lie: dict[str, Any] | None) -> None:
    storage.home(*MINJI)
    backup = storage.backup()
    document = json.loads(Path(backup.path, "backup.json").read_text())
    uuids = {"homes": "12345678-1234-1234-1234-123456789012"}
    if lie is None:
        uuids = {}
    elif "homes" in lie:
        document["homes"] = dict.fromkeys(lie["homes"], document["homes"]["minji"])
    elif "nested" in lie:
        document["homes"]["minji"]["nested"] = lie["nested"]
    else:
        document |= lie
    (tmp_path / "said").write_text(json.dumps({"backup": json.dumps(document), "uuids": uuids}))
    liar = transfer.Remote("nas2", ("sh", "-c", f"cat {tmp_path}/said"))
    with pytest.raises(NodeError, match=r"refused|format"):
        transfer.describe(FIRST, str(storage.directory), liar)


@pytest.mark.parametrize("said", ["", "{}", '{"backup": "{}", "uuids": {}}', '{"backup": [], "uuids": []}'])
def test_words_of_the_other_host_that_are_none(storage: Storage, said: str) -> None:
    """Whoever looks for the newest there gets a sentence, too."""
    mad = transfer.Remote("nas2", ("sh", "-c", f"case \"$0\" in list) echo {FIRST};; *) echo '{said}';; esac"))
    with pytest.raises(NodeError, match=f"no backup with a home of minji .*; and .*{FIRST}.* cannot be read"):
        restore_plan.locate(wanted(storage), mad)


def test_the_other_host_lets_the_oldest_of_the_timer_s_go(
    storage: Storage, remote: tuple[transfer.Remote, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps one, as its role says, and for a month all. What an admin made stays, and what nobody else has."""
    there, directory = remote
    storage.home(*MINJI)
    sent = [storage.backup()]
    transfer.send(sent[0], there, [])
    for month, day, then in (("12", "22", 2), ("12", "23", 3), ("12", "24", 4), ("01", "25", 2)):
        year = 2026 + (month == "01")
        monkeypatch.setenv("TEST_NOW", f"{year}-{month}-{day}T02:00:00Z")
        sent.append(storage.backup(f"{year}{month}{day}T010203Z-daily", verify=[]))
        transfer.send(sent[-1], there, sent[-2::-1])
        assert len(backup_set.complete(str(directory))) == then
    assert [one.name for one in backup_set.complete(str(directory))] == [FIRST, "20270125T010203Z-daily"]


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


def restoring(storage: Storage, **more: Any) -> restore.Request:
    request = restore.Request(str(storage.root), str(storage.directory), "minji", FIRST, mountpoint=str(storage.point))
    return replace(request, **more)


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


def test_a_restore_says_at_once_that_something_is_in_its_way(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.backup()
    restore.execute(restoring(storage))
    with pytest.raises(NodeError, match="move it away first"):
        restore.compute(restoring(storage), Path("/proc/self/mountinfo").read_text())

"""Backup and wipe on a real btrfs: nothing goes that is not in a verified backup, whatever is in a home."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, purge, safe_walk
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, making
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes as wipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.deep_tree import plant
from tests.support.failing import fail_for, raising
from tests.support.hostile_home import hostile
from tests.support.lock_holder import held
from tests.support.storage import FIRST, JIHO, MINJI, Storage, mounted, run

pytestmark = pytest.mark.btrfs
STAMP = "20261221T010203Z"


@pytest.fixture
def saved(storage: Storage) -> None:
    """minji's home, with a verified backup."""
    storage.home(*MINJI)
    storage.backup()


def test_one_goes_and_the_other_stays(storage: Storage) -> None:
    storage.home(*MINJI)
    kept = storage.home(*JIHO)
    inode = kept.stat().st_ino
    backup = storage.backup(verify=["minji"])
    assert backup.homes["minji"].files == 1
    assert backup.homes["minji"].verified is not None
    assert backup.homes["jiho"].verified is None
    check = storage.wipe(MINJI, check=True)
    assert storage.names == ["jiho", "minji"]
    plan, purged = storage.wipe_all(MINJI)
    assert plan.operations == check.operations
    assert plan.operations == [f"home minji: wipe (uid 20001, 1 file, 9 bytes; in backup {FIRST})"]
    assert storage.names == ["jiho"]
    assert (purged["minji"].deleted, purged["minji"].kept) == (2, 0)
    assert kept.stat().st_ino == inode
    assert Path(backup.home("minji"), "thesis").read_bytes() == b"precious\n"
    # again: nothing is left to do
    again, rest = storage.wipe_all(MINJI)
    assert (again.operations, again.entries["minji"].status, rest) == ([], "absent", {})


def test_what_is_said_to_have_gone_is_on_the_disk(
    storage: Storage, saved: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut nobody would look for it: the journal says that it is done."""
    synced: list[list[str]] = []
    trash = storage.root / wipe.TRASH
    monkeypatch.setattr(wipe, "sync_filesystem", lambda _path: synced.append(storage.names))
    storage.wipe(MINJI)
    assert synced == [[trash.name]], "homes are out of sight"
    wipe.empty_trash(storage.wiping(MINJI))
    assert synced[1:] == [[]], "and deleted"


def test_without_a_verified_backup_nothing_goes(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    with pytest.raises(NodeError, match="no complete backup"):
        storage.wipe(MINJI)
    storage.backup(verify=["minji"])
    storage.home("newcomer", 20003)
    for person, words in (
        (JIHO, "not verified"),
        (("newcomer", 20003), "not in the backup"),
        (("minji", 20009), "belonged to uid 20001"),
        (("../minji", 20001), "refused"),
        (("root", 0), "refused"),
        ((".gpuadmin-wiping", 20001), "refused"),
    ):
        plan = storage.wipe(person)
        assert words in plan.conflicts[0], person
    assert storage.names == ["jiho", "minji", "newcomer"]


def test_an_unexpected_mount(storage: Storage, saved: None) -> None:
    bare = "1 0 0:1 / / rw - ext4 /dev/a rw\n"
    for request in (storage.wiping(MINJI), replace(storage.wiping(MINJI), mountpoint=None)):
        with pytest.raises(NodeError, match=r"nothing is mounted|root file system"):
            wipe.converge(request, mountinfo=bare)
    elsewhere = replace(storage.wiping(MINJI), root=str(storage.point))
    with pytest.raises(NodeError, match="not of"):
        wipe.converge(elsewhere)
    assert storage.names == ["minji"]


def test_the_same_uid_or_name_twice(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home("alias", 20001)
    storage.backup()
    assert "minji's, too" in storage.wipe(MINJI, ("alias", 20001)).conflicts[0]
    assert "twice" in storage.wipe(("alias", 20001), ("alias", 20001)).conflicts[0]
    assert storage.names == [wipe.TRASH, "alias"]


def test_another_directory_than_the_one_that_was_backed_up(storage: Storage) -> None:
    home = storage.home(*MINJI)
    storage.backup()
    home.rename(storage.root / "elsewhere")
    storage.home("minji", 20001, {"new work": b"x"})
    assert "another directory" in storage.wipe(MINJI).conflicts[0]
    subprocess.run(["rm", "-r", str(home)], check=True)
    home.symlink_to(storage.root / "elsewhere")
    assert "symbolic link" in storage.wipe(MINJI).conflicts[0]
    assert (storage.root / "elsewhere/thesis").exists()
    home.unlink()
    home.write_bytes(b"new work")
    assert "is not a directory" in storage.wipe(MINJI).conflicts[0]


def test_what_is_nobody_is_refused_and_keeps_no_other(storage: Storage, saved: None) -> None:
    odd: list[dict[str, object]] = [{"name": "jiho", "uid": "20001x"}, {"uid": 20003}, {"name": 5, "uid": 20004}]
    request = storage.wiping(MINJI)
    plan = wipe.converge(replace(request, users=[*odd, *request.users]))
    assert [one.endswith("is refused") for one in plan.conflicts] == [True] * 3
    assert plan.entries["minji"].status == "wiped"
    assert storage.names == [wipe.TRASH]


def test_where_there_are_no_homes_none_counts_as_wiped(storage: Storage, saved: None) -> None:
    """The disk may be somewhere else."""
    storage.root.rename(storage.point / "away")
    for check in (True, False):
        with pytest.raises(NodeError, match="there is no "):
            storage.wipe(MINJI, check=check)


def test_what_is_out_of_sight_waits_for_its_backup(storage: Storage, saved: None) -> None:
    """It is not gone yet, and what is beside it is nobody's in that backup."""
    storage.wipe(MINJI)
    assert storage.wipe(MINJI).entries["minji"].status == "wiped"
    stranger = Path(wipe.trash(str(storage.root), FIRST, "stranger"))
    stranger.mkdir()
    storage.directory.chmod(0o755)
    with pytest.raises(NodeError, match="root alone can enter"):
        wipe.empty_trash(storage.wiping(MINJI))
    storage.directory.chmod(0o700)
    assert list(wipe.empty_trash(storage.wiping(MINJI))) == ["minji"]
    assert stranger.exists()
    assert storage.wipe(MINJI).entries["minji"].status == "absent"


@pytest.mark.parametrize("code", [errno.EDQUOT, errno.ENOSPC])
def test_where_nothing_can_be_moved_only_what_the_backup_has_is_deleted(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    backup = storage.backup()
    (home / "late").write_bytes(b"new")
    begun: list[int] = []
    twin, move = wipe.Twin, wipe._move_home_aside

    def watched(top: str, nested: dict[str, str], since: int) -> wipe.Twin:
        begun.append(since)
        return twin(top, nested, since)

    def full(request: wipe.Request, source: int, name: str) -> str | None:
        if name == "minji":
            raise OSError(code, os.strerror(code))
        return move(request, source, name)

    monkeypatch.setattr(wipe, "Twin", watched)
    monkeypatch.setattr(wipe, "_move_home_aside", full)
    plan, purged = storage.wipe_all(MINJI, JIHO)
    assert plan.conflicts == ["home minji: was deleted but for 'late' is not in the backup"]
    assert (plan.move, len(plan.operations), list(purged)) == (["jiho"], 1, ["jiho"])
    assert contents(home) == {"late": b"new"}
    assert begun == [backup.begun, backup.begun], "what was changed since then is compared"


@pytest.mark.holds("a file whose ctime moved is compared before it goes")
def test_what_was_written_after_the_backup_stays(storage: Storage) -> None:
    home = storage.home("minji", 20001, {"a": b"1", "b": b"2", "dir/c": b"3", "dir/d": b"4"})
    storage.backup()
    (home / "b").write_bytes(b"changed")
    (home / "dir/e").write_bytes(b"new")
    (home / "empty").mkdir()
    (home / "d").symlink_to("a")
    facts = (home / "a").stat()
    (home / "a").write_bytes(b"!")
    os.utime(home / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (home / "dir/c").chmod(0o600)
    plan, purged = storage.wipe_all(MINJI)
    assert plan.conflicts == []
    assert not home.exists()
    rest = Path(wipe.trash(str(storage.root), FIRST, "minji"))
    assert sorted(str(path.relative_to(rest)) for path in rest.rglob("*")) == ["a", "b", "d", "dir", "dir/e", "empty"]
    assert purged["minji"].kept == 5
    assert "'b' was changed after the backup" in purged["minji"].words
    assert (rest / "b").read_bytes() == b"changed"


@pytest.mark.holds("the same times mean the same content only if no snapshot was being made")
def test_what_was_written_while_the_snapshot_was_made_stays(storage: Storage) -> None:
    """btrfs writes times at once (of mmap, or with a mode) and content later: a snapshot has the new times and the old
    content of what was changed meanwhile. Here the times are made the same; it takes luck to hit that moment.
    """
    home = storage.home("minji", 20001, {"a": b"1", "b": b"1"})
    backup = storage.backup()
    top, nested = backup_set.source(backup, "minji")
    (home / "a").write_bytes(b"!")
    handle = btrfs.open_directory(str(home))
    begun = Path(top, "a").stat().st_ctime_ns  # they were changed since, however long the backup took to begin
    try:
        with purge.Twin(top, nested, begun) as twin:
            for name, reason in ((b"a", "was changed after the backup"), (b"b", None)):
                facts = os.stat(name, dir_fd=handle)
                times = Path(top, os.fsdecode(name)).stat()
                same = {"st_mtime_ns": times.st_mtime_ns, "st_ctime_ns": times.st_ctime_ns}
                same_times = os.stat_result(facts[:10], same)
                assert twin.judge(safe_walk.Entry(name, name, handle, same_times)) == reason
    finally:
        os.close(handle)


@pytest.mark.holds("what was changed before the backup by a clock that was set back is compared")
def test_a_clock_that_was_set_back_does_not_hide_a_change(storage: Storage) -> None:
    """By its time the change was before the backup, but the backup has the file with another one."""
    home = storage.home("minji", 20001, {"a": b"1"})
    backup = storage.backup()
    facts = (home / "a").stat()
    (home / "a").write_bytes(b"!")
    os.utime(home / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    backup_set.store(replace(backup, begun=(home / "a").stat().st_ctime_ns + 1))
    _plan, purged = storage.wipe_all(MINJI)
    assert purged["minji"].words == ["'a' was changed after the backup"]
    assert Path(wipe.trash(str(storage.root), FIRST, "minji"), "a").read_bytes() == b"!"


@pytest.mark.holds("a link goes only if the backup has one that leads there")
def test_a_link_of_a_subvolume_that_was_made_anew_stays(storage: Storage) -> None:
    """Its inodes have the numbers of the first one's."""
    home = storage.home("minji", 20001, {})
    for target in ("first", "second"):
        run("btrfs", "subvolume", "create", home / "sub")
        (home / "sub/link").symlink_to(target)
        storage.give(home, 20001)
        if target == "first":
            storage.backup()
            run("btrfs", "subvolume", "delete", home / "sub")
    _plan, purged = storage.wipe_all(MINJI)
    rest = Path(wipe.trash(str(storage.root), FIRST, "minji"))
    assert (rest / "sub/link").readlink() == Path("second")
    assert purged["minji"].words == ["'sub/link' is not the link in the backup"]


def test_what_is_not_verified_any_more_is_not_deleted(storage: Storage) -> None:
    """A wipe that was cut goes on; meanwhile somebody has verified the backup again, and it is damaged."""
    storage.home(*MINJI)
    backup = storage.backup()
    storage.wipe(MINJI)
    backup_set.store(replace(backup, homes={"minji": replace(backup.homes["minji"], verified=None)}))
    purged = wipe.empty_trash(storage.wiping(MINJI))
    assert (purged["minji"].deleted, purged["minji"].kept) == (0, 1)
    assert (Path(wipe.trash(str(storage.root), FIRST, "minji")) / "thesis").read_bytes() == b"precious\n"


def test_everything_that_a_home_may_hold(storage: Storage) -> None:
    home = storage.home(*MINJI)
    hostile(home)
    outside = storage.home(*JIHO)
    os.link(home / "one", outside / "three")
    run("chattr", "+i", home)
    backup = storage.backup()
    assert backup.problems == {}
    plan, purged = storage.wipe_all(MINJI)
    assert plan.conflicts == []
    assert purged["minji"].words == []
    assert storage.names == ["jiho"]
    assert (outside / "three").read_bytes() == b"linked"
    assert Path("/etc/passwd").exists()
    assert making.verify(backup, ["minji"], again=True).homes["minji"].verified


def test_deeper_than_the_longest_path(storage: Storage) -> None:
    home = storage.home(*MINJI)
    plant(home, ["x" * 200] * 60)
    backup = storage.backup()
    assert (backup.homes["minji"].files, backup.homes["minji"].entries) == (2, 63)
    _plan, purged = storage.wipe_all(MINJI)
    assert (purged["minji"].kept, storage.names) == (0, [])


def test_nested_subvolumes(storage: Storage) -> None:
    home = storage.home(*MINJI)
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"in a subvolume")
    (home / "data/deeper").mkdir()
    run("btrfs", "subvolume", "snapshot", "-r", home / "data", home / "data/deeper/snap\nshot")
    storage.home(*JIHO)
    backup = storage.backup()
    assert sorted(backup.homes["minji"].nested) == ["data", "data/deeper/snap\nshot"]
    assert backup.homes["minji"].files == 3
    _plan, purged = storage.wipe_all(MINJI)
    assert purged["minji"].words == []
    assert storage.names == ["jiho"]
    assert list(btrfs.nested(str(storage.root))) == []
    assert making.verify(backup, ["minji"], again=True)


def test_a_home_that_is_a_subvolume(storage: Storage) -> None:
    run("btrfs", "subvolume", "create", storage.root / "minji")
    (storage.root / "minji/thesis").write_bytes(b"precious")
    storage.give(storage.root / "minji", 20001)
    run("btrfs", "property", "set", "-ts", storage.root / "minji", "ro", "true")
    backup = storage.backup()
    assert backup.homes["minji"].files == 1
    plan, purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, purged["minji"].words, storage.names) == ([], [], [])


def test_something_mounted_inside(storage: Storage) -> None:
    home = storage.home(*MINJI)
    (home / "disk").mkdir()
    storage.backup()
    run("mount", "-t", "tmpfs", "tmpfs", home / "disk")
    (home / "disk/elsewhere").write_bytes(b"not ours")
    assert "is mounted inside" in storage.wipe(MINJI).conflicts[0]
    assert (home / "disk/elsewhere").exists()
    # a bind mount has the same device as the home
    run("umount", home / "disk")
    other = storage.home(*JIHO)
    run("mount", "--bind", other, home / "disk")
    assert "is mounted inside" in storage.wipe(MINJI).conflicts[0]
    run("umount", home / "disk")


def test_an_empty_home(storage: Storage) -> None:
    storage.home("minji", 20001, {})
    backup = storage.backup()
    assert (backup.homes["minji"].files, backup.homes["minji"].bytes) == (0, 0)
    storage.wipe_all(MINJI)
    assert storage.names == []


def test_homes_that_are_no_subvolume(tmp_path: Path) -> None:
    """As they were made before there was a reset: a directory of the whole disk."""
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        (point / "homes").mkdir()
        storage = object.__new__(Storage)
        storage.point, storage.root, storage.directory = point, point / "homes", point / "backups"
        home = storage.home(*MINJI)
        run("btrfs", "subvolume", "create", home / "data")
        (home / "data/set").write_bytes(b"x")
        storage.backup()
        backup = storage.backup("20261222T010203Z-daily")
        assert backup.homes["minji"].files == 2
        plan, purged = storage.wipe_all(MINJI)
        assert (plan.conflicts, purged["minji"].words, storage.names) == ([], [], [])
        assert len(backup_set.complete(str(storage.directory))) == 2


def fill(path: Path, megabytes: int) -> None:
    """Write until nothing more fits."""

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            for _ in range(megabytes):
                stream.write(os.urandom(1 << 20))
                os.fsync(stream.fileno())

    with pytest.raises(OSError, match=r"No space|quota"):
        write()


def test_a_full_disk_fails_before_anything_is_wiped(storage: Storage) -> None:
    storage.home(*MINJI)
    fill(storage.point / "full", 512)
    with pytest.raises(NodeError, match=r"would stay free|No space"):
        storage.backup()
    assert backup_set.names(str(storage.directory)) == []
    with pytest.raises(NodeError, match="no complete backup"):
        storage.wipe(MINJI)
    assert storage.names == ["minji"]


def test_a_disk_that_becomes_full_while_the_backup_is_made(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    monkeypatch.setattr(making, "_write_manifest", lambda task: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(NodeError, match="No space"):
        storage.backup()
    assert backup_set.names(str(storage.directory)) == []


def test_a_reached_quota_does_not_keep_a_home_from_going(storage: Storage) -> None:
    home = storage.home("minji", 20001, {f"file{number}": os.urandom(100_000) for number in range(20)})
    storage.backup()
    run("btrfs", "quota", "enable", storage.point)
    run("btrfs", "quota", "rescan", "-w", storage.point)
    run("btrfs", "qgroup", "limit", "2M", storage.root)
    fill(home / "more", 4)
    (home / "more").unlink(missing_ok=True)
    plan, _purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, storage.names) == ([], [])


def test_cut_while_it_is_deleted(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home("minji", 20001, {f"d{number}/f": b"x" for number in range(30)})
    storage.backup()
    storage.wipe(MINJI)
    from ansible_collections.gpuadmin.node.plugins.module_utils import purge

    real, left = purge._remove, [20]

    def cut(entry: object, directory: bool) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(entry, directory)

    monkeypatch.setattr(purge, "_remove", cut)
    with pytest.raises(KeyboardInterrupt):
        wipe.empty_trash(storage.wiping(MINJI))
    monkeypatch.setattr(purge, "_remove", real)
    plan, purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, purged["minji"].words, storage.names) == ([], [], [])


def test_what_restores_made_beside_a_home_goes_with_it(storage: Storage) -> None:
    """It is in the backup, each under its own name; it belongs to the person by its name and by its owner."""
    storage.home(*MINJI)
    for name, uid in ((f"minji.restored-{STAMP}", 20001), (f"minji.before-{STAMP}.restored-{STAMP}", 20001),
                      (f"jiho.before-{STAMP}", 20001), ("minji.bak", 20001)):  # fmt: skip
        storage.home(name, uid, {"draft": name.encode()})
    backup = storage.backup()
    names = ["minji", f"minji.before-{STAMP}.restored-{STAMP}", f"minji.restored-{STAMP}"]
    mine = [(name, 20001) for name in names]
    assert sorted(backup.homes) == sorted([*names, f"jiho.before-{STAMP}"])
    assert all(home.verified for home in backup.homes.values())
    assert list(backup.problems) == ["'minji.bak'"]
    wrong = storage.wipe(MINJI, (f"jiho.before-{STAMP}", 20001), ("minji.bak", 20001), check=True)
    assert len(wrong.conflicts) == 2, "another one's by its name, and nothing of gpuadmin's"
    theirs = storage.wipe((f"minji.restored-{STAMP}", 20002), check=True)
    assert "belonged to uid 20001" in theirs.conflicts[0]
    plan, purged = storage.wipe_all(*mine)
    assert (plan.conflicts, sorted(purged)) == ([], sorted(backup.homes.keys() - {f"jiho.before-{STAMP}"}))
    assert storage.names == [f"jiho.before-{STAMP}", "minji.bak"]


def test_a_lease_keeps_one_home_from_going_and_no_other(storage: Storage) -> None:
    """Who still has a file open can hold a lease on it: root's look at it fails, or would wait."""
    home = storage.home("minji", 20001, {"leased": b"old", "z": b"z"})
    storage.home(*JIHO)
    storage.home("another", 20003)
    storage.backup()
    (home / "leased").chmod(0o600)  # so that its content is looked at
    people = MINJI, JIHO, ("another", 20003)
    with held(home / "leased", "lease"):
        _plan, purged = storage.wipe_all(*people)
        assert [(name, done.kept > 0) for name, done in sorted(purged.items())] == [
            ("another", False), ("jiho", False), ("minji", True),
        ]  # fmt: skip
        assert storage.names == [wipe.TRASH]
    # who reads it while the lease stands waits until the kernel breaks it: 45 s
    assert Path(wipe.trash(str(storage.root), FIRST, "minji"), "leased").read_bytes() == b"old"
    _plan, purged = storage.wipe_all(*people)
    assert (purged["minji"].kept, storage.names) == (0, [])


@pytest.mark.parametrize("error", [OSError(16, "Device or resource busy"), NodeError("something odd")])
def test_a_home_that_cannot_be_moved_keeps_no_other(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    storage.backup()
    fail_for(monkeypatch, wipe, "_move_home_aside", lambda request, source, name: name == "jiho", error)
    plan = storage.wipe(JIHO, MINJI, ("nobody", 20009))
    assert [one.partition(":")[0] for one in plan.conflicts] == ["home jiho"]
    assert storage.names == [wipe.TRASH, "jiho"]


def test_a_home_that_cannot_be_looked_at_keeps_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    storage.backup()
    fail_for(monkeypatch, btrfs, "subvolume", lambda path: path.endswith("/jiho"), OSError(5, "Input/output error"))
    plan = storage.wipe(JIHO, MINJI)
    assert plan.conflicts == ["home jiho: cannot be looked at: Input/output error"]
    assert storage.names == [wipe.TRASH, "jiho"]


def test_what_is_left_of_an_earlier_home_is_not_replaced(storage: Storage, saved: None) -> None:
    left = Path(wipe.trash(str(storage.root), FIRST, "minji"), "late")
    for path in (left.parent.parent.parent, left.parent.parent, left.parent):
        path.mkdir(mode=0o700)
    left.write_bytes(b"work")
    assert "the rest of an earlier home" in storage.wipe(MINJI).conflicts[0]
    assert (left.read_bytes(), (storage.root / "minji/thesis").exists()) == (b"work", True)


@pytest.mark.parametrize("harm", ["open", "another's", "link"])
def test_what_is_out_of_sight_is_root_s_alone(storage: Storage, saved: None, harm: str) -> None:
    """Where homes are moved to nobody else can enter, or put something in their way."""
    place = storage.root / wipe.TRASH
    if harm == "link":
        (storage.point / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(storage.point / "elsewhere")
    else:
        place.mkdir(mode=0o700)
        if harm == "open":
            place.chmod(0o755)
        else:
            os.chown(place, 20002, 20002)
    assert "not root's directory" in storage.wipe(MINJI).conflicts[0]
    assert (storage.root / "minji/thesis").exists()


def test_a_disk_that_fails_is_said_in_words(storage: Storage, saved: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wipe, "flocked", raising(OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(NodeError, match="Input/output error"):
        storage.wipe(MINJI)


def test_another_subvolume_of_the_same_name_and_inode(storage: Storage) -> None:
    """Every subvolume's root has the same inode number: it is told by its own id."""
    run("btrfs", "subvolume", "create", storage.root / "minji")
    (storage.root / "minji/thesis").write_bytes(b"precious")
    storage.give(storage.root / "minji", 20001)
    storage.backup()
    (storage.root / "minji").rename(storage.root / "elsewhere")
    run("btrfs", "subvolume", "create", storage.root / "minji")
    storage.give(storage.root / "minji", 20001)
    assert (storage.root / "minji").stat().st_ino == (storage.root / "elsewhere").stat().st_ino
    assert "another directory" in storage.wipe(MINJI).conflicts[0]


NAMES = [b"a", b"b", b"new\nline", b"\xff", b"-rf", b"d", b"e"]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda parts: os.fsdecode(b"/".join(parts)))
CHANGES = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "mkdir", "link", "hard", "chmod", "touch"]), PATHS, PATHS), max_size=8
)


def change(home: Path, kind: str, path: str, other: str) -> None:
    """One thing that a person does in a home; what cannot be done is not."""
    target = home / path
    with contextlib.suppress(OSError):
        if kind == "write":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(os.fsencode(other) * 3)
        elif kind == "delete":
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
        elif kind == "mkdir":
            target.mkdir(parents=True)
        elif kind == "link":
            target.symlink_to(other)
        elif kind == "hard":
            os.link(home / other, target)
        elif kind == "chmod":
            target.chmod(0o700)
        else:
            os.utime(target, ns=(0, 0), follow_symlinks=False)


def contents(home: Path) -> dict[str, bytes | str]:
    """Every file and link below a directory, with what is in it."""
    found: dict[str, bytes | str] = {}
    for path in home.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(home))] = os.readlink(path)  # noqa: PTH115  a target need not be a path
        elif path.is_file():
            found[str(path.relative_to(home))] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    base = tmp_path_factory.mktemp("property")
    with mounted(base / "disk", base / "srv", 512) as point:
        yield Storage(point)


@given(before=CHANGES, after=CHANGES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_done_after_the_backup_is_not_lost(
    disk: Storage, before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]
) -> None:
    """What is gone after a wipe is in the backup, byte for byte; what the backup does not have is still there."""
    home = disk.home("minji", 20001, {"d/e": b"1", "a": b"2"})
    for step in before:
        change(home, *step)
    os.chown(home, 20001, 20001)
    backup = disk.backup()
    saved = contents(Path(backup.home("minji")))
    for step in after:
        change(home, *step)
    now = contents(home)
    plan, purged = disk.wipe_all(MINJI)
    assert plan.conflicts == []
    rest = Path(wipe.trash(str(disk.root), FIRST, "minji"))
    left = contents(rest) if rest.is_dir() else {}
    for path, content in now.items():
        assert left.get(path) == content or saved.get(path) == content, path
    assert set(left) <= set(now)
    assert purged["minji"].kept >= len(left)
    # for the next example
    for place in (disk.root / wipe.TRASH, disk.root / "minji"):
        shutil.rmtree(place, ignore_errors=True)
    backup_set.remove(str(disk.directory), FIRST)


def test_a_home_that_is_somebody_else_s_by_now_stays(storage: Storage) -> None:
    home = storage.home(*MINJI)
    storage.backup()
    os.chown(home, 20002, 20002)
    assert "belongs to uid 20002" in storage.wipe(MINJI).conflicts[0]
    assert storage.names == ["minji"]


def test_a_home_whose_backup_cannot_be_read_keeps_no_other(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is out of sight by then, and stays there."""
    storage.home(*MINJI)
    storage.home("jiho", 20002)
    storage.backup()
    storage.wipe(MINJI, ("jiho", 20002))
    fail_for(
        monkeypatch, wipe, "Twin", lambda top, nested, begun: top.endswith("/jiho"), OSError(5, "Input/output error")
    )
    done = wipe.empty_trash(storage.wiping())
    assert "stays, wholly or in part" in done["jiho"].words[0]
    assert (done["minji"].kept, done["minji"].deleted) == (0, 2)
    assert Path(wipe.trash(str(storage.root), FIRST, "jiho"), "thesis").exists()


@pytest.mark.holds("a wipe goes by the inode")
def test_a_home_in_which_nothing_is_left_of_the_backup(storage: Storage) -> None:
    """Another file of the same size, time and content is another file: the judge goes by the inode."""
    home = storage.home(*MINJI)
    storage.backup()
    facts = (home / "thesis").stat()
    (home / "new").write_bytes(b"precious\n")
    os.utime(home / "new", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (home / "new").rename(home / "thesis")
    _plan, purged = storage.wipe_all(MINJI)
    assert purged["minji"].words == ["'thesis' is not the file in the backup"]
    assert (Path(wipe.trash(str(storage.root), FIRST, "minji")) / "thesis").exists()


@pytest.mark.btrfs
def test_a_home_whose_second_copy_failed_stays_and_the_others_go(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    backup = storage.backup()
    backup_set.copied(backup, "nas2", backup_set.now(), {"minji": "is larger than what is free there"})
    plan = storage.wipe(MINJI, JIHO)
    assert {name: home.status for name, home in plan.entries.items()} == {"minji": "conflict", "jiho": "wiped"}
    assert plan.entries["minji"].problem == "has no second copy on nas2 (is larger than what is free there)"
    backup_set.copied(backup, "nas2", backup_set.now())
    assert storage.wipe(MINJI).conflicts == []

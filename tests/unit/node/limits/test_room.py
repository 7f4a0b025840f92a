"""Room on disks that people cannot fill, on a real btrfs."""

import errno
import json
import os
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, qgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import filling
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import operations, room
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Places, Rooms

from tests.support.failing import raising
from tests.support.people_disk import Disk, as_minji, disk
from tests.support.storage import JIHO, SECOND, Storage, run
from tests.support.storage import MINJI as SUN

__all__ = ["disk"]
MIB = 1 << 20
pytestmark = [pytest.mark.btrfs]


def test_root_writes_and_deletes_where_people_have_filled_all(disk: Disk) -> None:
    """A disk reached 0 bytes, and not even tab completion worked."""
    kept = disk.keep()
    assert (kept.problems, kept.notes) == ([], [])
    disk.fill()
    assert disk.free > 150 * MIB
    assert room.space(str(disk.local / ".docker"), places=disk.places)[1] < MIB
    assert room.space(str(disk.state), places=disk.places)[1] == pytest.approx(disk.free, abs=8 * MIB)
    assert filling.main(disk.places, str(disk.top.parent / "metrics")) == 0
    text = (disk.top.parent / "metrics/room.prom").read_text()
    free = next(line for line in text.splitlines() if line.startswith("gpuadmin_people_disk_free_bytes{"))
    assert f'mountpoint="{disk.local}"' in free
    assert float(free.split()[-1]) < MIB
    asked = "\n".join(
        (
            "import sys; sys.path[:0] = sys.argv[1].split(':')",
            "from ansible_collections.gpuadmin.node.plugins.module_utils.limits import room",
            "print(list(room.bounded(room.Places(sys.argv[2]))))",
        )
    )
    said = as_minji("python3", "-c", asked, ":".join(sys.path), disk.places.state)
    assert str(disk.local) in said.stdout, said.stderr
    (disk.state / "log").write_bytes(os.urandom(64 * MIB))
    assert as_minji("rm", str(next(disk.local.glob("large-*")))).returncode == 0
    run("btrfs", "filesystem", "sync", disk.top)
    assert disk.write(disk.local / "again", 20)


@pytest.mark.parametrize(
    ("asked", "whole", "kept"),
    [("5%", 8 << 30, 1.0), ("1M", 1 << 40, 1.25), ("5%", 1 << 40, 51.2), ("100%", 8 << 30, 4.0)],
)
def test_root_can_make_a_file_on_a_disk_that_people_have_filled(asked: str, whole: int, kept: float) -> None:
    assert room._reserve(asked, whole) == pytest.approx(kept * (1 << 30), rel=0.01)


def test_a_second_run_and_a_check_say_what_is_done(disk: Disk) -> None:
    said = disk.keep(check=True).done
    assert not (disk.top.parent / "state").exists()
    assert not qgroups.enabled(disk.uuid)
    assert disk.keep().done == said
    assert said[0] == f"{disk.local}: quotas of btrfs are turned on"
    assert "the last 214.7 MB of 1.1 GB is kept for root" in said[1]
    assert disk.keep(check=True).done == []
    assert disk.keep().done == []
    run("btrfs", "qgroup", "limit", "none", qgroups.GROUP, disk.top)
    said = disk.keep(check=True).done
    assert len(said) == 1
    assert disk.group.most is None
    assert disk.keep().done == said
    assert disk.group.most is not None


def test_what_others_take_of_the_disk_people_do_not_get(disk: Disk) -> None:
    disk.keep()
    before = disk.group.most
    (disk.state / "image").write_bytes(os.urandom(300 * MIB))
    run("btrfs", "filesystem", "sync", disk.top)
    assert room.main(disk.places) == 0
    assert before is not None
    assert disk.group.most == pytest.approx(before - 300 * MIB, abs=40 * MIB)
    disk.fill()
    assert disk.free > 150 * MIB


def test_a_disk_that_is_too_full_already_is_told_beforehand(disk: Disk) -> None:
    assert disk.write(disk.local / "all", 800)
    (sentence,) = disk.keep(check=True).done[1:]
    assert "people write nothing there until there is 214.7 MB" in sentence
    disk.keep()
    assert not disk.write(disk.local / "more", 1)
    assert as_minji("rm", str(disk.local / "all")).returncode == 0
    run("btrfs", "filesystem", "sync", disk.top)
    assert disk.write(disk.local / "more", 1)


def test_homes_are_wiped_where_people_have_filled_all(disk: Disk) -> None:
    storage = Storage(disk.top)
    for person in (SUN, JIHO):
        storage.home(*person)
    storage.backup()
    wanted = replace(disk.wanted, paths=[str(storage.root)])
    assert room.keep(disk.places, wanted, check=False).problems == []
    while disk.write(storage.root / SUN[0] / f"large-{time.monotonic_ns()}", 100):
        pass
    while as_minji("sh", "-c", f"head -c 8000 /dev/zero >{storage.root}/{SUN[0]}/$(date +%N)").returncode == 0:
        pass
    plan, _moved = storage.wipe_all(JIHO)  # nothing can be moved aside: what the backup has is deleted where it is
    assert (plan.conflicts, storage.names) == ([], [qgroups.DESK, "minji"])
    assert storage.backup(SECOND).homes.keys() == {"minji"}


def test_a_subvolume_of_somebodys_own_counts_as_well(disk: Disk) -> None:
    disk.keep()
    assert as_minji("btrfs", "subvolume", "create", str(disk.local / "mine")).returncode == 0
    assert disk.write(disk.local / "mine/first", 50)
    assert room.main(disk.places) == 0
    run("btrfs", "filesystem", "sync", disk.top)
    assert disk.group.used > 50 * MIB
    assert not disk.write(disk.local / "mine/all", 900)
    assert disk.free > 150 * MIB


@pytest.mark.holds("groups are changed where no limit holds")
def test_a_subvolume_that_fills_the_disk_with_the_rest_is_bounded(disk: Disk) -> None:
    """Somebody makes it, and fills it and all else before the timer's next minute."""
    disk.keep()
    assert as_minji("btrfs", "subvolume", "create", str(disk.local / "mine")).returncode == 0
    disk.fill()
    assert disk.write(disk.local / "mine/first", 50)
    assert disk.keep().problems == []
    assert not disk.write(disk.local / "mine/more", 1)
    for path in (*disk.local.glob("large-*"), disk.local / "mine/first"):
        assert as_minji("rm", str(path)).returncode == 0
    run("btrfs", "filesystem", "sync", disk.top)
    assert disk.keep().problems == []
    assert disk.write(disk.local / "mine/again", 20)
    disk.fill()
    assert not disk.write(disk.local / "mine/all", 200)
    assert disk.free > 150 * MIB


@pytest.mark.holds("groups are changed where no limit holds")
def test_what_people_have_filled_is_given_up(disk: Disk) -> None:
    disk.keep()
    disk.fill()
    assert disk.keep("0").problems == []
    assert not qgroups.enabled(disk.uuid)
    assert sorted(one.name for one in disk.local.iterdir() if one.name.startswith(".")) == [".docker"]


@pytest.mark.holds("what a person has put there is not root's")
def test_whoever_takes_the_name_of_root_s_subvolume_is_told(disk: Disk) -> None:
    mine = disk.local / qgroups.DESK
    assert as_minji("btrfs", "subvolume", "create", str(mine)).returncode == 0
    assert disk.keep().problems == [f"{mine} is not root's subvolume: move it away"]
    assert disk.group.most is not None
    mine.rmdir()
    said = disk.keep(check=True).done
    assert [one.partition(": ")[0] for one in said] == [str(mine)]
    kept = disk.keep()
    assert (kept.done, kept.problems) == (said, [])
    facts = mine.stat()
    assert (facts.st_uid, facts.st_mode & 0o777) == (0, 0o700)
    assert facts.st_dev == disk.local.stat().st_dev, "over NFS the root of a subvolume would be a loop"
    assert disk.keep(check=True).done == []


@pytest.mark.holds("what a person has put there is not taken away as root's")
@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_whoever_is_in_the_way_of_it_keeps_no_room_from_root(disk: Disk, tmp_path: Path, kind: str) -> None:
    """Scratch such as /tmp, where anybody can make anything beforehand."""
    new, elsewhere = disk.local / f"{qgroups.DESK}.new", tmp_path / "desk"
    elsewhere.mkdir()
    made = {"directory": f"mkdir -p {new}/x", "link": f"ln -s {tmp_path} {new}", "file": f"touch {new}"}
    assert as_minji("sh", "-c", made[kind]).returncode == 0
    assert disk.keep().problems == [f"{new} is not root's: move it away"]
    assert disk.group.most is not None
    assert elsewhere.exists()


def test_a_disk_that_refuses_to_delete_keeps_no_room_from_root(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """btrfs needs room for that, too."""

    def full(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(qgroups.btrfs, "create", full)
    monkeypatch.setattr(qgroups.os, "rmdir", full)
    assert "cannot be made before somebody deletes something" in str(disk.keep().problems)
    assert disk.group.most is not None


def test_where_limits_are_changed_moves_from_where_a_release_before_had_it(disk: Disk) -> None:
    before = disk.local / qgroups.DESK
    run("btrfs", "subvolume", "create", before)
    assert qgroups.desk(str(disk.local)) == str(before)
    assert disk.keep().problems == []
    assert qgroups.desk(str(disk.local)) == f"{before}/desk"
    assert disk.keep(check=True).done == []


def test_a_full_disk_keeps_what_a_release_before_had(disk: Disk) -> None:
    before = disk.local / qgroups.DESK
    disk.keep()
    qgroups.unmake_desk(str(disk.local))
    run("btrfs", "subvolume", "create", before)
    disk.fill()
    kept = disk.keep()
    assert f"{before}/desk cannot be made before somebody deletes something" in str(kept.problems)
    assert qgroups.desk(str(disk.local)) == str(before)
    assert sorted(one.name for one in disk.local.iterdir() if one.name.startswith(".")) == [".docker", qgroups.DESK]


def test_a_subvolume_of_root_s_does_not_count(disk: Disk) -> None:
    disk.keep()
    run("btrfs", "subvolume", "create", disk.local / "kept")
    assert as_minji("btrfs", "subvolume", "create", str(disk.local / "mine")).returncode == 0
    assert room.main(disk.places) == 0
    found = [btrfs.inspect(str(disk.local / name)) for name in ("kept", "mine")]
    members = qgroups.members(str(disk.top))
    assert [one is not None and one.id in members for one in found] == [False, True]


def test_people_with_ever_more_subvolumes_hold_up_nobody(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []

    def below(path: str) -> Iterator[tuple[int, int]]:
        yield from ((999001, 5), (999002, 5))
        raise AssertionError("it goes on and on")

    monkeypatch.setattr(room, "MOST", 1)
    monkeypatch.setattr(room, "below", below)
    monkeypatch.setattr(qgroups, "join", lambda path, ids: joined.extend(ids))
    assert disk.keep().notes == [
        f"{disk.local}: people have more than 1 subvolumes: not all of them are bounded"
    ]  # fmt: skip
    assert (999001 in joined, 999002 in joined) == (True, False)


def test_a_disk_without_any_room_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_free", lambda path: (100 << 30, 0))
    monkeypatch.setattr(qgroups, "group", lambda uuid: qgroups.Group(5 * MIB, 0, None))
    assert room._most(room.Tree("u", {256: "/local"}), "5%")[0] == MIB


@pytest.mark.holds("quotas of another kind are somebody else's")
def test_quotas_of_another_kind_are_somebody_else_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qgroups, "SYSFS", str(tmp_path))
    (tmp_path / "u/qgroups").mkdir(parents=True)
    assert qgroups.enabled("u")
    (tmp_path / "u/qgroups/mode").write_text("squota\n")
    with pytest.raises(NodeError, match="simple quotas are on"):
        qgroups.enabled("u")


@pytest.mark.holds("a subvolume that stays in a group is told")
def test_a_subvolume_that_stays_in_a_group_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qgroups, "run", raising(NodeError("Input/output error")))
    monkeypatch.setattr(qgroups, "all_members", lambda path: {qgroups.GROUP: {300}})
    qgroups.part("/local", [301])
    with pytest.raises(NodeError, match="Input/output error"):
        qgroups.part("/local", [300])


def test_no_limit_is_made_of_half_a_count(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qgroups, "counted", lambda _: False)
    monkeypatch.setattr(room, "COUNTING", 0.0)
    kept = room.keep(disk.places, disk.wanted, check=False, patience=0)
    assert kept.notes == [f"{disk.local}: btrfs counts what is there; the limit follows by itself"]
    assert qgroups.group(disk.uuid) is None
    monkeypatch.undo()
    for _ in range(200):
        if qgroups.counted(disk.uuid):
            break
        time.sleep(0.05)  # btrfs tells nobody that it has counted
    assert room.main(disk.places) == 0
    assert disk.group.most is not None


def test_no_limit_is_made_while_what_has_joined_is_counted(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter([True, False])
    limited: list[str] = []
    monkeypatch.setattr(room, "_counted", lambda *_: next(counted))
    monkeypatch.setattr(room, "_limit", lambda tree, *_: limited.append(tree.path))
    disk.keep()
    assert limited == []


def test_a_limit_that_is_not_in_force_is_a_failure(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qgroups, "limit", lambda *_: None)
    (problem,) = disk.keep().problems
    assert "is not in force" in problem


def test_the_switch_that_turns_it_off(disk: Disk) -> None:
    disk.keep()
    said = disk.keep("0", check=True).done
    assert said == [f"{disk.local}: nothing is kept for root any more"]
    assert disk.keep("0").done == said
    assert not qgroups.enabled(disk.uuid)
    assert list((disk.top.parent / "state").iterdir()) == []
    assert disk.keep("0").done == []


def test_what_is_turned_off_meanwhile_stays_off(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer waits for the lock while somebody sets the host up."""
    disk.keep()
    locked = room.flocked

    @contextmanager
    def late(path: str) -> Iterator[None]:
        monkeypatch.setattr(room, "flocked", locked)
        disk.keep("0")
        with locked(path):
            yield

    monkeypatch.setattr(room, "flocked", late)
    assert room.main(disk.places) == 0
    assert not qgroups.enabled(disk.uuid)


def test_what_is_turned_on_is_known_as_ours(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(qgroups, "enable", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            disk.keep()
    run("btrfs", "quota", "enable", disk.top)  # as if it had come to that
    disk.keep()
    disk.keep("0")
    assert not qgroups.enabled(disk.uuid)


def test_a_disk_that_no_room_can_be_kept_on_is_told(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qgroups, "enable", raising(NodeError("btrfs: command not found")))
    assert disk.keep().problems == [f"{disk.local}: no room is kept for root: btrfs: command not found"]


def test_somebody_elses_quotas_stay(disk: Disk) -> None:
    run("btrfs", "quota", "enable", disk.top)
    disk.keep()
    disk.keep("0")
    assert qgroups.enabled(disk.uuid)
    assert qgroups.group(disk.uuid) is None


@pytest.mark.parametrize(
    ("fstype", "free", "words"),
    [
        ("ext4", 50, ""), ("ext4", 0, "tune2fs -m 5"), ("xfs", 50, "keeps nothing for root"), ("tmpfs", 0, ""),
        ("nfs4", 0, ""), ("autofs", 0, ""),
    ],
)  # fmt: skip
def test_other_file_systems_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fstype: str, free: int, words: str
) -> None:
    kept = types.SimpleNamespace(f_blocks=1000, f_bfree=300 + free, f_bavail=300, f_frsize=4096)
    monkeypatch.setattr(room.os, "statvfs", lambda _: kept)
    monkeypatch.setattr(room, "read_mountinfo", lambda: f"1 1 0:1 / / rw - {fstype} /dev/sda rw\n")
    monkeypatch.setattr(room, "subvolume", lambda _: None)
    found = room.keep(Places(str(tmp_path / "state"), str(tmp_path)), Rooms("5%", [str(tmp_path)]), check=True)
    assert found.done == found.problems == []
    assert len(found.notes) == (1 if words else 0)
    assert words in "".join(found.notes)


def test_a_directory_of_the_systems_subvolume_is_told(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_SYSTEM", (str(disk.local),))
    answer = operations.keep_room(operations.DiskRoom("5%", [str(disk.local)]), False, disk.places)
    (note,) = answer.report["problems"]
    assert note.startswith(f"{disk.local} is in a subvolume of the system")
    assert answer.operations == []


def test_a_record_that_is_damaged_is_named(disk: Disk) -> None:
    disk.keep()
    record = disk.top.parent / "state/disks.json"
    assert json.loads(record.read_text())["turned_on"] == [str(disk.local)]
    record.write_text("{")
    with pytest.raises(NodeError, match=r"disks\.json is damaged"):
        room.load(disk.places)
    assert list(room.bounded(disk.places)) == []

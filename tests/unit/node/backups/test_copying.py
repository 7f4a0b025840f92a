"""Backup, verification and restore of homes whose owner means harm: theirs is a problem, all others go on."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import signal
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, extents
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    copying,
    home_manifest,
    making,
    restore,
    timed,
    verifying,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes as wipe

from tests.hostile.person import SUBVOL_CREATE
from tests.unit.node.deep import bottom, descend, listing, plant
from tests.unit.node.storage import FIRST, JIHO, MINJI, SECOND, Storage, flip, run, wanted
from tests.unit.node.wipe.test_homes import hostile


def rubbish(storage: Storage) -> list[str]:
    """What lies beside the sets."""
    return [path.name for path in storage.directory.iterdir() if not backup_set.NAME.match(path.name)]


@pytest.mark.btrfs
@pytest.mark.parametrize(("levels", "name"), [(18, "x" * 255), (1500, "d")])
def test_what_no_path_reaches_comes_back(storage: Storage, levels: int, name: str) -> None:
    """18 levels of the longest names are more than 4096 bytes; 1500 levels more than Python and descriptors take."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    plant(home, [name] * levels)
    backup = storage.backup()
    assert backup.problems == {}
    assert [one for one, home_ in backup.homes.items() if home_.verified] == ["jiho", "minji"]
    plan, purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, purged["minji"].reasons) == ([], [])
    done = restore.execute(wanted(storage, mode="in-place"))
    assert done["entries"] == backup.homes["minji"].entries
    assert bottom(home, [name] * levels) == b"deep"
    part = restore.execute(wanted(storage, path="/".join([name] * levels)))
    assert bottom(Path(str(part["target"])), []) == b"deep"
    assert rubbish(storage) == []


@pytest.mark.btrfs
def test_a_sample_restores_what_no_path_reaches(storage: Storage) -> None:
    home = storage.home(*MINJI)
    plant(home, ["x" * 255] * 18)
    backup = storage.backup(verify=[])
    limits = verifying.Limits(entries=0, sample=3)
    assert making.verify(backup, ["minji"], limits=limits).homes["minji"].verified


@pytest.mark.btrfs
def test_sizes_that_are_only_numbers(storage: Storage) -> None:
    home = storage.home(*MINJI)
    with (home / "sparse").open("wb") as stream:
        stream.truncate(7 << 60)
        stream.seek(5 << 60)
        stream.write(b"x")
    os.link(home / "sparse", home / "twin")
    storage.give(home, 20001)
    begun = time.monotonic()
    backup = storage.backup()
    assert (backup.problems, bool(backup.homes["minji"].verified)) == ({}, True)
    _plan, purged = storage.wipe_all(MINJI)  # the second name is compared: the first one's end has changed its ctime
    assert purged["minji"].reasons == []
    restore.execute(wanted(storage, mode="in-place"))
    assert (home / "sparse").stat().st_size == 7 << 60
    assert (home / "sparse").stat().st_ino == (home / "twin").stat().st_ino
    with (home / "sparse").open("rb") as stream:
        stream.seek(5 << 60)
        assert stream.read(1) == b"x"
    target = storage.point / "elsewhere"
    restore.execute(wanted(storage, mode="directory", target=str(target), path="twin"))
    assert time.monotonic() - begun < 60


@pytest.mark.btrfs
def test_a_checksum_is_of_what_is_in_a_file_and_not_of_how_it_is_stored(storage: Storage) -> None:
    """Zeros or holes; blocks of btrfs, of the memory's file system; a piece of any length at any place."""
    chance = random.Random(14)
    sums = set()
    content = bytearray(3 << 20)
    for _ in range(40):
        at, length = chance.randrange(len(content)), chance.choice([1, 100, 4096, 70_000])
        content[at : at + length] = chance.randbytes(len(content[at : at + length]))
    content[-5:] = b"\0\0\0\0\1"
    for top in (storage.point, Path("/dev/shm")):
        for holes in (False, True):
            path = top / f"gpuadmin-test-{os.getpid()}"
            with path.open("wb") as stream:
                if holes:
                    stream.truncate(len(content))
                    for at in range(0, len(content), 512):
                        if any(content[at : at + 512]):
                            stream.seek(at)
                            stream.write(content[at : at + 512])
                else:
                    stream.write(content)
            handle = os.open(path, os.O_RDONLY)
            sums.add(extents.digest(handle, len(content), Budget()))
            os.close(handle)
            path.unlink()
    assert len(sums) == 1
    content[4096 * 17] ^= 1
    (storage.point / "other").write_bytes(content)
    with (storage.point / "other").open("rb") as stream:
        assert extents.digest(stream.fileno(), len(content), Budget()) not in sums


@pytest.mark.btrfs
def test_where_data_lies_is_part_of_the_checksum(tmp_path: Path) -> None:
    sums = set()
    for at in (0, 4096, 8192):
        path = tmp_path / str(at)
        path.write_bytes(bytes(at) + b"x" * 4096 + bytes(8192 - at))
        with path.open("rb") as stream:
            sums.add(extents.digest(stream.fileno(), 12288, Budget()))
    assert len(sums) == 3


@pytest.mark.btrfs
def test_a_file_that_cannot_share_blocks_is_copied_with_its_holes(storage: Storage) -> None:
    home = storage.home(*MINJI)
    with (home / "holes").open("wb") as stream:
        stream.truncate(1 << 40)
        stream.seek(1 << 39)
        stream.write(b"y" * 5000)
    storage.backup()
    other = Path("/dev/shm") / f"gpuadmin-test-{os.getpid()}"
    other.mkdir(mode=0o700)
    try:
        restore.execute(wanted(storage, mode="directory", target=str(other / "out")))
        facts = (other / "out/holes").stat()
        assert (facts.st_size, facts.st_blocks * 512 < 1 << 20) == (1 << 40, True)
    finally:
        run("rm", "-r", other)


@pytest.mark.btrfs
def test_a_file_without_copy_on_write_shares_its_blocks_too(storage: Storage) -> None:
    """Otherwise a file of little on the disk, many times shared, would fill it when it is verified."""
    home = storage.home(*MINJI)
    (home / "nocow").touch()
    run("chattr", "+C", home / "nocow")
    (home / "nocow").write_bytes(os.urandom(60 << 20))
    with (home / "nocow").open("r+b") as stream:
        for number in range(1, 6):
            fcntl.ioctl(
                stream.fileno(), 0x4020940D, struct.pack("=qQQQ", stream.fileno(), 0, 60 << 20, number * 60 << 20)
            )
    storage.give(home, 20001)
    assert storage.backup().homes["minji"].verified
    assert restore.execute(wanted(storage))["bytes"] == (360 << 20) + 9


@pytest.mark.btrfs
def test_a_copy_has_a_limit_where_blocks_are_not_shared(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    source, target = os.open(tmp_path / "a", os.O_RDONLY), os.open("/dev/shm", os.O_RDWR | os.O_TMPFILE)
    with pytest.raises(NodeError, match="shares no blocks"):
        extents.copy(source, target, 10_000, Budget(written=9_999))
    extents.copy(source, target, 10_000, Budget(written=10_000))
    os.close(source)
    os.close(target)


# acl(5) as the kernel keeps it: tag, permissions, id; user 20002 and group 20003 by name
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in (
        (1, 7, 0xFFFFFFFF), (2, 7, 20002), (4, 5, 0xFFFFFFFF), (8, 4, 20003), (16, 7, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)
    )
)  # fmt: skip


def everything(home: Path) -> None:
    hostile(home)
    run("chattr", "-i", home / "frozen/immutable")
    run("chattr", "-a", home / "frozen")
    for name in ("closed", "fifo", "one"):
        os.setxattr(home / name, "system.posix_acl_access", ACL)
    os.setxattr(home / "frozen", "system.posix_acl_default", ACL)
    (home / "three").hardlink_to(home / "one")
    (home / "frozen/program").write_bytes(b"#!/bin/sh")
    (home / "frozen/program").chmod(0o6755)
    os.setxattr(home / "frozen/program", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
    (home / "sticky").mkdir()
    (home / "sticky").chmod(0o3775)
    for path in sorted(home.rglob("*"), reverse=True):
        os.utime(path, ns=(1_000_000_007, 1_500_000_000_123_456_789), follow_symlinks=False)


@pytest.mark.btrfs
def test_a_copy_has_all_that_a_home_may_hold(storage: Storage) -> None:
    home = storage.home(*MINJI)
    everything(home)
    storage.backup()
    before = listing(home)
    copy = Path(str(restore.execute(wanted(storage))["target"]))
    assert listing(copy) == before
    out = storage.point / "out"
    restore.execute(wanted(storage, mode="directory", target=str(out), path="frozen"))
    assert listing(out) == listing(home / "frozen")


@pytest.mark.btrfs
def test_a_file_of_as_many_names_as_the_file_system_allows(storage: Storage) -> None:
    """No further name can be had of it while it is copied."""
    home = storage.home(*MINJI)
    (home / "a").mkdir()
    (home / "a/0").write_bytes(b"x")
    for number in range(1, 3000):
        os.link(home / "a/0", home / f"a/{number}")
    storage.home(*JIHO)
    os.link(home / "a/0", storage.root / "jiho/z")
    backup = storage.backup()
    assert all(one.verified for one in backup.homes.values())
    assert (Path(str(restore.execute(wanted(storage))["target"])) / "a/7").stat().st_nlink == 3000


@pytest.mark.btrfs
def test_a_home_with_too_much_is_a_problem_and_kept(storage: Storage) -> None:
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(60)})
    storage.home(*JIHO)
    backup = making.create(replace(storage.request(), entries=50))
    assert set(backup.homes) == {"jiho"}
    assert "more than 50 entries" in backup.problems["minji"]
    assert "more than 50 entries" in storage.wipe(MINJI).conflicts[0]
    assert making.missing(backup.as_dict()) == [f"minji {backup.problems['minji']}: not backed up"]
    # names are counted before they are all in memory, and a long path counts more than once
    small = Budget()
    small._room = 1000
    with pytest.raises(NodeError, match="names at once"):
        list(home_manifest.lines(str(storage.root / "minji"), budget=small))
    plant(storage.root / "jiho", ["y" * 200] * 40)
    with pytest.raises(NodeError, match="entries"):
        list(home_manifest.lines(str(storage.root / "jiho"), budget=Budget(entries=100)))


@pytest.mark.btrfs
def test_a_home_that_takes_too_long_is_a_problem_and_kept(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the reading itself, and where the process does not even look at the clock."""
    for name, uid in (MINJI, JIHO, ("soo", 20003)):
        storage.home(name, uid, {name: b"x"})
    real = extents.pieces
    monkeypatch.setattr(making, "each", partial(making.each, grace=1.0))

    def slow(handle: int, size: int, budget: Budget) -> Iterator[tuple[int, bytes]]:
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name  # noqa: PTH115
        if name == "minji":
            while True:
                budget.check()
        if name == "soo":
            time.sleep(600)
        return real(handle, size, budget)

    monkeypatch.setattr(extents, "pieces", slow)
    begun = time.monotonic()
    backup = making.create(replace(storage.request(), seconds=2, workers=2))
    assert time.monotonic() - begun < 30
    assert list(backup.homes) == ["jiho"]
    assert "longer than 2 seconds" in backup.problems["minji"]
    assert "did not end within 2 seconds" in backup.problems["soo"]


@pytest.mark.btrfs
def test_a_process_that_dies_is_one_home_s_problem(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    real = home_manifest.lines

    def dying(top: str, *more: object, **named: object) -> Iterator[home_manifest.Line]:
        if str(top).endswith("minji"):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(top, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(home_manifest, "lines", dying)
    backup = storage.backup()
    assert (list(backup.homes), list(backup.problems)) == (["jiho"], ["minji"])
    assert "-9" in backup.problems["minji"]


def killed(storage: Storage, attribute: str, request: making.Request) -> None:
    """Make a backup in a process, and kill that when jiho's home is done and minji's is not."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        real = getattr(making, attribute)

        def stuck(task: object) -> object:
            name = task.name if isinstance(task, verifying.Task) else task[2]  # type: ignore[index]
            if name == "minji":
                (storage.point / "reached").touch()
                time.sleep(600)
            return real(task)

        setattr(making, attribute, stuck)
        making.create(request)
        os._exit(1)
    deadline = time.monotonic() + 60
    while not (storage.point / "reached").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.btrfs
def test_a_run_that_is_killed_loses_only_the_home_that_it_was_at(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    killed(storage, "_write_manifest", storage.request())
    assert backup_set.load(str(storage.directory), FIRST) is None
    with pytest.raises(NodeError, match="no complete backup"):
        storage.wipe(JIHO)
    with pytest.raises(NodeError, match="no backup"):
        restore.execute(wanted(storage, user="jiho"))
    log, real = storage.point / "log", making._write_manifest

    def logged(task: tuple[making.Request, backup_set.Backup, str]) -> home_manifest.Total:
        with log.open("a") as stream:
            stream.write(task[2])
        return real(task)

    monkeypatch.setattr(making, "_write_manifest", logged)
    backup = storage.backup()
    assert log.read_text() == "minji"
    assert [bool(home.verified) for home in backup.homes.values()] == [True, True]
    assert not Path(backup.path, backup_set.UNFINISHED).exists()


@pytest.mark.btrfs
def test_another_backup_ends_the_one_that_was_killed_with_what_is_done(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    killed(storage, "_write_manifest", storage.request())
    storage.backup(SECOND)
    first, second = backup_set.complete(str(storage.directory))
    assert (list(first.homes), list(first.problems), list(second.homes)) == (["jiho"], ["minji"], ["jiho", "minji"])
    assert first.homes["jiho"].verified is None
    assert making.verify(first, ["jiho"]).homes["jiho"].verified
    assert "was not reached" in storage.wipe(MINJI).conflicts[0]


@pytest.mark.btrfs
def test_a_verification_that_is_killed_keeps_what_it_found(storage: Storage) -> None:
    storage.home(*MINJI)
    storage.home(*JIHO)
    killed(storage, "verify_home", storage.request())
    found = backup_set.load(str(storage.directory), FIRST)
    assert found is not None
    assert [bool(home.verified) for home in found.homes.values()] == [True, False]


@pytest.mark.btrfs
@pytest.mark.parametrize("limits", [verifying.Limits(), verifying.Limits(entries=0)])
def test_verified_means_restored(storage: Storage, monkeypatch: pytest.MonkeyPatch, limits: verifying.Limits) -> None:
    """Whatever a copy would lack, the home is not verified, nothing is called damaged, and the others go on."""
    home = storage.home(*MINJI)
    (home / "thesis").chmod(0o640)
    os.setxattr(home / "thesis", "user.secret", b"1")
    storage.home(*JIHO)
    backup = storage.backup(verify=[])
    real = copying.Copier._give

    def forgetful(self: copying.Copier, source: int, target: int, facts: os.stat_result) -> None:
        real(self, source, target, facts)
        if isinstance(target, int) and "user.secret" in os.listxattr(target):
            os.removexattr(target, "user.secret")

    monkeypatch.setattr(copying.Copier, "_give", forgetful)
    result = making.verify(backup, ["jiho", "minji"], limits=limits)
    assert (bool(result.homes["jiho"].verified), result.homes["minji"].verified) == (True, None)
    assert "'thesis' differs in attributes" in result.problems["minji"]
    assert "not verified" in storage.wipe(MINJI).conflicts[0]
    with pytest.raises(NodeError, match="was not verified: minji: "):
        making.verify(result, ["jiho", "minji"], limits=limits, again=True)
    monkeypatch.undo()
    result = making.verify(result, ["minji"], limits=limits)
    assert (result.problems, bool(result.homes["minji"].verified)) == ({}, True)
    assert rubbish(storage) == []


@pytest.mark.btrfs
def test_a_sample_holds_all_kinds(storage: Storage) -> None:
    home = storage.home(*MINJI)
    everything(home)
    run("btrfs", "subvolume", "create", home / "data")
    (home / "data/set").write_bytes(b"1")
    backup = storage.backup(verify=[])
    assert making.verify(backup, ["minji"], limits=verifying.Limits(entries=0)).homes["minji"].verified


@pytest.mark.btrfs
def test_which_lines_are_a_sample() -> None:
    lines = [home_manifest.Line(f"{number}", "f", 0, 0, 0, size=10) for number in range(1000)]
    lines.append(home_manifest.Line("a/very/long/one", "f", 0, 0, 0, size=10))
    lines.append(home_manifest.Line("a/further/name/of/it", "h", 0, 0, 0, link="1"))
    limits = verifying.Limits(sample=20, bytes=150)
    picked = [verifying.chosen(iter(lines), limits, random.Random(seed)) for seed in (1, 2)]
    assert [len(one) for one in picked] == [15, 15]
    assert all(one[0].path == "a/very/long/one" for one in picked)
    assert picked[0] != picked[1]


@pytest.mark.btrfs
def test_what_a_killed_verification_left_goes_and_what_is_in_use_stays(storage: Storage) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    for name in ("stale", "busy"):
        (storage.directory / f"{verifying.SCRATCH}{name}").mkdir(mode=0o700)
        (storage.directory / f"{verifying.SCRATCH}{name}/copy").mkdir()
    busy = os.open(storage.directory / f"{verifying.SCRATCH}busy", os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    making.verify(backup, ["minji"])
    assert rubbish(storage) == [f"{verifying.SCRATCH}busy"]
    os.close(busy)


def old_checksum(content: bytes) -> str:
    """As sets of format 1 have it."""
    whole = hashlib.sha256()
    for at in range(0, len(content), 1 << 20):
        whole.update(hashlib.sha256(content[at : at + (1 << 20)]).digest())
    return whole.hexdigest()


@pytest.mark.btrfs
def test_sets_of_the_format_before_are_verified_and_restored(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(2_500_000) + bytes(3 << 20) + b"end"
    home = storage.home("minji", 20001, {"big": content})
    everything(home)
    monkeypatch.setattr(making, "Backup", partial(backup_set.Backup, format=1))
    backup = storage.backup(verify=[])
    monkeypatch.undo()
    document = json.loads(Path(backup.path, "backup.json").read_text())
    assert document["format"] == 1
    lines = {line.path: line for line in home_manifest.read(backup.manifest("minji"))}
    assert (lines["big"].content, lines["fifo"].attributes) == (old_checksum(content), "")
    found = backup_set.load(str(storage.directory), FIRST)
    assert found is not None
    assert making.verify(found, ["minji"]).homes["minji"].verified
    assert json.loads(Path(backup.path, "backup.json").read_text())["format"] == 1
    assert restore.execute(wanted(storage))["checksum"] == found.homes["minji"].checksum
    # the next set has the checksums of now: none is taken over from before
    second = storage.backup(SECOND)
    assert second.homes["minji"].verified
    assert all(line.content[:1] == "e" for line in home_manifest.read(second.manifest("minji")) if line.kind == "f")
    flip(found.home("minji"), "big", content[:-1] + b"D")
    with pytest.raises(NodeError, match="'big' differs in content"):
        making.verify(found, ["minji"], again=True)


@pytest.mark.btrfs
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


@pytest.mark.btrfs
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


@pytest.mark.btrfs
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


@pytest.mark.btrfs
def test_a_subvolume_at_a_path_that_is_too_long(storage: Storage) -> None:
    """btrfs has no room for more than 4080 bytes where it says where a subvolume is: that was nobody's backup."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    run("btrfs", "subvolume", "create", home / "data")
    run("btrfs", "subvolume", "create", home / "data/inner")
    (home / "data/inner/set").write_bytes(b"far")
    parts = ["x" * 250] * 20
    here = descend(home, parts, make=True)
    top = os.open(home, os.O_RDONLY)
    os.rename("data", "data", src_dir_fd=top, dst_dir_fd=here)
    os.close(top)
    os.close(here)
    path = "/".join([*parts, "data"])
    assert list(btrfs.nested(str(storage.root))) == [f"minji/{path}", f"minji/{path}/inner"]
    backup = storage.backup()
    assert backup.problems == {}
    assert sorted(backup.homes["minji"].nested) == [path, f"{path}/inner"]
    assert all(one.verified for one in backup.homes.values())
    plan, purged = storage.wipe_all(MINJI)
    assert (plan.conflicts, purged["minji"].reasons) == ([], [])
    restore.execute(wanted(storage, mode="in-place"))
    far = descend(home, [*parts, "data", "inner"])
    assert os.stat("set", dir_fd=far).st_size == 3
    os.close(far)


@pytest.mark.btrfs
def test_a_subvolume_that_cannot_be_saved_is_its_home_s_problem(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    run("btrfs", "subvolume", "create", home / "data")
    real = btrfs.snapshot

    def failing(source: int, target: str) -> None:
        if "/nested/" in target:
            raise OSError(2, "No such file or directory")
        real(source, target)

    monkeypatch.setattr(btrfs, "snapshot", failing)
    backup = storage.backup()
    assert (list(backup.homes), "cannot be saved" in backup.problems["minji"]) == (["jiho"], True)


@pytest.mark.btrfs
def test_a_link_on_the_way_to_a_subvolume_is_not_followed(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the kernel's answer and the snapshot a person puts a link to somebody else's in the way."""
    home, other = storage.home(*MINJI), storage.home(*JIHO)
    for one in (home, other):
        (one / "d").mkdir()
        run("btrfs", "subvolume", "create", one / "d/data")
    (other / "d/data/secret").write_bytes(b"jiho's")
    real = btrfs.open_deep

    def moved(path: str | bytes, at: int) -> int:
        if path == "minji/d/data" and not (home / "e").exists():
            (home / "d").rename(home / "e")
            (home / "d").symlink_to("../jiho/d")
        return real(path, at)

    monkeypatch.setattr(btrfs, "open_deep", moved)
    backup = storage.backup()
    assert (list(backup.homes), list(backup.problems)) == (["jiho"], ["minji"])


@pytest.mark.btrfs
def test_attributes_that_cannot_be_listed_are_a_problem(storage: Storage) -> None:
    """More names than listxattr(2) gives: they would be missing in a restored home, and nobody would know."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    for number in range(300):
        os.setxattr(home / "thesis", f"user.{number:0240}", b"")
    backup = storage.backup()
    assert (list(backup.homes), list(backup.problems)) == (["jiho"], ["minji"])


@pytest.mark.btrfs
def test_a_manifest_that_is_one_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    path = tmp_path / "x.gz"
    monkeypatch.setattr(home_manifest, "_LONGEST", 100)
    with gzip.open(path, "wt") as stream:
        stream.write("[" + " " * 1000 + "]")
    with pytest.raises(NodeError, match="cannot be read"):
        list(home_manifest.read(str(path)))


@pytest.mark.btrfs
def test_what_one_home_lacks_is_said(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    storage.home("minji", 20001, {f"f{number}": b"x" for number in range(2000)})
    storage.home(*JIHO)
    timed.make({
        "root": str(storage.root), "directory": str(storage.directory), "mountpoint": str(storage.point), "workers": 2,
        "ordinary": 3, "home_seconds": 600, "home_entries": 1000,
    }, SECOND)  # fmt: skip
    said = capsys.readouterr()
    assert "Warning: minji holds more than 1000 entries (backups.home_entries): not backed up" in said.err
    assert "1 home" in said.out


@pytest.mark.btrfs
def test_a_home_in_which_nothing_is_left_of_the_backup(storage: Storage) -> None:
    """Another file of the same size, time and content is another file: the judge goes by the inode."""
    home = storage.home(*MINJI)
    storage.backup()
    facts = (home / "thesis").stat()
    (home / "new").write_bytes(b"precious\n")
    os.utime(home / "new", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    (home / "new").rename(home / "thesis")
    _plan, purged = storage.wipe_all(MINJI)
    assert purged["minji"].reasons == ["'thesis' is another file than in the backup"]
    assert (Path(wipe.trash(str(storage.root), FIRST, "minji")) / "thesis").exists()


@pytest.mark.btrfs
def test_subvolumes_at_paths_that_no_backup_json_holds_are_a_problem(storage: Storage) -> None:
    """Their paths are in backup.json, which another host takes up to a length, and in each line of the manifest."""
    home = storage.home(*MINJI)
    storage.home(*JIHO)
    levels = ["x" * 255] * 300
    plant(home, levels)
    handle = descend(home, levels)
    try:
        fcntl.ioctl(handle, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, b"sub")))
    finally:
        os.close(handle)
    backup = storage.backup()
    assert list(backup.homes) == ["jiho"]
    assert backup.problems == {"minji": "holds subvolumes at paths of more than 65536 bytes together"}


@pytest.mark.btrfs
def test_two_verifications_leave_each_other_s_place_alone(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is made and not locked yet looks like what a verification left that was killed."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    real = os.mkdir
    calls = []

    def made(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(path, mode, dir_fd=dir_fd)
        if os.fsdecode(path).rpartition("/")[2].startswith(verifying.SCRATCH):
            calls.append(path)
            if len(calls) == 1:  # the other one is here before anything else can be done with the directory
                verifying._clear(dir_fd, path)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "mkdir", made)
    assert verifying.verify_home(verifying.Task(backup, "minji")) == verifying.Found()
    assert len(calls) == 2
    assert rubbish(storage) == []


@pytest.mark.btrfs
def test_a_set_that_is_deleted_while_it_is_verified_does_not_come_back(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.home(*MINJI)
    backup = storage.backup(verify=[])

    def deleted(task: verifying.Task) -> verifying.Found:
        (Path(task.backup.path) / "backup.json").unlink()  # the first step of a deletion
        return verifying.Found()

    monkeypatch.setattr(making, "verify_home", deleted)
    with pytest.raises(NodeError, match="was deleted while it was read"):
        making.verify(backup, ["minji"])
    assert backup_set.complete(str(storage.directory)) == []
    with pytest.raises(NodeError, match="was deleted while it was copied to nas2"):
        backup_set.copied(backup, "nas2", backup_set.now())
    assert backup_set.complete(str(storage.directory)) == []


@pytest.mark.btrfs
def test_what_a_backup_holds_is_not_too_much_to_be_verified(storage: Storage) -> None:
    """A verification goes through a home three times."""
    home = storage.home(*MINJI)
    for number in range(40):
        (home / str(number)).write_bytes(b"1")
    backup = making.create(replace(storage.request(), entries=42))
    assert backup.problems == {}
    assert backup.homes["minji"].verified


@pytest.mark.btrfs
@pytest.mark.parametrize("finished", [False, True])
def test_a_deletion_that_is_cut_leaves_no_set(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, finished: bool
) -> None:
    """Of one that was being made, or whose making was cut just before its end, the snapshots go first."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    backup_set.store(backup, backup_set.UNFINISHED)
    if not finished:
        (Path(backup.path) / "backup.json").unlink()

    def cut(paths: list[str]) -> None:
        run("btrfs", "subvolume", "delete", *paths)
        raise OSError("the power is gone")

    monkeypatch.setattr(btrfs, "delete", cut)
    with pytest.raises(OSError, match="power"):
        backup_set.remove(str(storage.directory), FIRST)
    monkeypatch.undo()
    backup_set.tidy(str(storage.directory), SECOND)
    assert backup_set.complete(str(storage.directory)) == []


def test_a_copy_has_a_place_for_each_subvolume(tmp_path: Path) -> None:
    for name in ("source", "links", "place"):
        (tmp_path / name).mkdir()
    source, links, place = (os.open(tmp_path / name, os.O_RDONLY) for name in ("source", "links", "place"))
    try:
        with pytest.raises(NodeError, match="no place in the copy"):
            copying.Copier(links, Budget()).tree(source, {"gone/data": str(tmp_path)}, place, b"copy")
    finally:
        for handle in (source, links, place):
            os.close(handle)

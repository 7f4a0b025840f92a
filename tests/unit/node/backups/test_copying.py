"""Backup, verification and restore of homes whose owner means harm: theirs is a problem, all others go on."""

import fcntl
import hashlib
import json
import os
import struct
import time
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import (
    backup_set,
    copying,
    home_manifest,
    home_reader,
    making,
    restore,
    snapshots,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.backup_contents import everything, rubbish
from tests.support.deep_tree import bottom, descend, listing, plant
from tests.support.storage import FIRST, JIHO, MINJI, SECOND, Storage, flip, run, wanted


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
    assert (plan.conflicts, purged["minji"].words) == ([], [])
    done = restore.execute(wanted(storage, mode="in-place"))
    assert done["entries"] == backup.homes["minji"].entries
    assert bottom(home, [name] * levels) == b"deep"
    part = restore.execute(wanted(storage, path="/".join([name] * levels)))
    assert bottom(Path(str(part["target"])), []) == b"deep"
    assert rubbish(storage) == []


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
    assert purged["minji"].words == []
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


def old_checksum(content: bytes) -> str:
    """As sets of format 1 have it."""
    whole = hashlib.sha256()
    for at in range(0, len(content), 1 << 20):
        whole.update(hashlib.sha256(content[at : at + (1 << 20)]).digest())
    return whole.hexdigest()


@pytest.mark.holds("checksums of the format before are not taken over")
@pytest.mark.btrfs
def test_sets_of_the_format_before_are_verified_and_restored(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"x"
    while not old_checksum(content).startswith("e"):  # as those of now do
        content = os.urandom(2_500_000) + bytes(3 << 20) + b"end"
    home = storage.home("minji", 20001, {"big": content})
    everything(home)
    monkeypatch.setattr(snapshots, "Backup", partial(backup_set.Backup, format=1))
    monkeypatch.setattr(snapshots, "TICK", -3600 * 10**9)  # all that is there was written long before it
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
    assert {len(line.content) for line in home_manifest.read(second.manifest("minji")) if line.kind == "f"} == {65}
    flip(found.home("minji"), "big", content[:-1] + b"D")
    with pytest.raises(NodeError, match="'big' differs in content"):
        making.verify(found, ["minji"], again=True)


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
    assert (plan.conflicts, purged["minji"].words) == ([], [])
    restore.execute(wanted(storage, mode="in-place"))
    far = descend(home, [*parts, "data", "inner"])
    assert os.stat("set", dir_fd=far).st_size == 3
    os.close(far)


@pytest.mark.parametrize(
    ("nested", "words"), [("gone/data", "'gone/data' has no place in the copy"), ("file", "'file' is in it twice")]
)
def test_a_copy_has_a_place_for_each_subvolume(tmp_path: Path, nested: str, words: str) -> None:
    """What is read is walked through as it is restored: there is no manifest of what no restore can make."""
    for name in ("source", "links", "place"):
        (tmp_path / name).mkdir()
    (tmp_path / "source/file").write_bytes(b"1")
    source, links, place = (os.open(tmp_path / name, os.O_RDONLY) for name in ("source", "links", "place"))
    where = {nested: str(tmp_path / "links")}
    try:
        with pytest.raises(NodeError, match=words):
            copying.Copier(links, Budget()).tree(source, where, place, b"copy")
        with pytest.raises(NodeError, match=words):
            list(home_reader.lines(source, where))
    finally:
        for handle in (source, links, place):
            os.close(handle)

"""The snapshots of a backup: what is odd about a subvolume is its home's problem."""

import fcntl
import itertools
import os
import stat
import struct
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making, restore, snapshots, verifying

from tests.support.deep_tree import descend, plant
from tests.support.hostile_person import SUBVOL_CREATE
from tests.support.storage import JIHO, MINJI, Storage, run, wanted


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
    assert backup.problems == {"minji": f"holds subvolumes at paths of more than {snapshots.NAMES} bytes together"}


def volume(path: Path) -> None:
    btrfs.create(str(path))
    (path / "set").write_bytes(b"1")


def volume_in_volume(path: Path) -> None:
    volume(path)
    volume(path / "link")


def volume_in_directory(path: Path) -> None:
    path.mkdir()
    volume(path / "link")


def stub_in_volume(path: Path) -> None:
    volume_in_volume(path.with_name("other"))
    btrfs.snapshot(str(path.with_name("other")), str(path), read_only=False)


def directory(path: Path) -> None:
    (path / "link").mkdir(parents=True)
    (path / "link/old").write_bytes(b"old")


def link_in_directory(path: Path) -> None:
    path.mkdir()
    (path / "link").symlink_to("..")


PLAIN: list[Callable[[Path], object]] = [
    directory, link_in_directory, os.mkfifo, lambda path: path.symlink_to(".."), lambda path: path.write_bytes(b"old"),
    lambda path: None,
]  # fmt: skip
VOLUMES: list[Callable[[Path], object]] = [volume, volume_in_volume, volume_in_directory, stub_in_volume]
AFTER: list[Callable[[Path], object]] = [
    volume, volume_in_volume, volume_in_directory, directory, lambda path: path.symlink_to(".."), lambda path: None,
]  # fmt: skip


@pytest.mark.holds("a subvolume is in a backup where it has a place")
@pytest.mark.btrfs
@pytest.mark.parametrize("around", [".", "outer"])
def test_what_becomes_a_subvolume_meanwhile_is_restored_as_what_it_was(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, around: str
) -> None:
    """Subvolumes are looked for when the snapshot around them is made already, which may have anything in their place.

    A large home, of which a sample is restored, was verified with them, and no restore could make both.
    """
    homes: dict[str, tuple[Path, Callable[[Path], object]]] = {}
    waiting = defaultdict(list)
    plain = set()
    for number, (before, after) in enumerate(itertools.product(PLAIN + VOLUMES, AFTER)):
        home = storage.home(f"user{number}", 20001 + number)
        if around != ".":
            btrfs.create(str(home / around))
        before(home / around / "x")
        homes[home.name] = home / around / "x", after
        waiting[(home / around).stat().st_dev].append(home.name)
        if before in PLAIN:
            plain.add(home.name)
    kinds = {name: (kind(path), kind(path / "link")) for name, (path, _) in homes.items()}
    real = btrfs.snapshot

    def exchanging(source: int, target: str) -> None:
        real(source, target)
        for name in waiting.pop(os.fstat(source).st_dev, []):
            path, after = homes[name]
            if os.path.lexists(path):
                path.rename(path.with_name("y") if around != "." else storage.root / f".{name}")
            after(path)

    monkeypatch.setattr(btrfs, "snapshot", exchanging)
    backup = storage.backup(verify=[])
    monkeypatch.undo()
    backup = making.verify(backup, list(backup.homes), limits=verifying.Limits(entries=0))
    assert not waiting
    gone = {name for name in homes if "that this backup does not hold" in backup.problems.get(name, "")}
    assert set(backup.problems) == gone, "nothing else is anybody's problem"
    assert {name for name, home in backup.homes.items() if home.verified} == set(homes) - gone
    for name in sorted(set(homes) - gone):
        place = Path(str(restore.execute(wanted(storage, user=name))["target"])) / around / "x"
        if name in plain:
            assert (name, kind(place), kind(place / "link")) == (name, *kinds[name])
    assert gone
    assert not gone & plain


def kind(path: Path) -> int:
    return stat.S_IFMT(os.lstat(path).st_mode) if os.path.lexists(path) else 0

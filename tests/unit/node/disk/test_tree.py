"""Sizes of a tree that its owner shapes: links, holes, pipes, depth, numbers, what moves meanwhile."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import budget as budgets
from ansible_collections.gpuadmin.node.plugins.module_utils import safe_walk
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import shares as limits
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import tree as package
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.shares import Shares
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.tree import ALL, Tree, measure

from tests.support.deep_tree import descend
from tests.support.storage import mounted


def measured(at: Path, entries: float = 1e6, shares: Shares | None = None) -> Tree:
    top = open_directory(str(at))
    try:
        return measure(top, Budget(60, entries), shares=shares)
    finally:
        os.close(top)


def du(at: Path) -> int:
    return int(subprocess.run(["du", "-s", "-B1", at], check=True, capture_output=True, text=True).stdout.split()[0])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, size in (("a/b/c/d/e/f/deep", 400_000), ("a/x", 5000), ("data/set/one", 900_000), ("top", 10)):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_bytes(b"x" * size)
    return tmp_path / "home"


def test_as_du_says(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "link").symlink_to("/")
    (home / "loop").symlink_to(".")
    os.link(home / "data/set/one", home / "a/again")
    with (home / "hole").open("wb") as stream:
        stream.truncate(1 << 40)
    found = measured(home)
    assert found.problem == ""
    assert found.people[ALL].size.bytes == du(home)
    entries = sum(1 for _ in home.rglob("*"))
    assert found.people[ALL].size.inodes == entries + 1 - 1, "itself, and a file of two names once"


def test_the_largest_directories_have_what_is_below(home: Path) -> None:
    largest = {path: (size, inodes) for path, size, inodes in measured(home).people[ALL].largest}
    assert [*largest][:2] == ["data", "data/set"]
    assert set(largest) == {"data", "data/set", "a", "a/b", "a/b/c", "a/b/c/d"}, "deeper ones are in these"
    for path, (size, inodes) in largest.items():
        assert size == du(home / path)
        assert inodes == sum(1 for _ in (home / path).rglob("*")) + 1


def test_so_many_are_kept(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}/f").write_bytes(b"x" * 4096 * number)
    largest = measured(tmp_path).people[ALL].largest
    assert [path for path, _, _ in largest] == [f"d{number}" for number in range(59, 39, -1)]


@pytest.mark.root
def test_each_file_is_its_owners(home: Path) -> None:
    os.chown(home / "data/set/one", 20001, 20001)
    os.chown(home / "a", 20002, 20002)
    found = measured(home, shares=Shares())
    assert found.people[20001].size.bytes == (home / "data/set/one").stat().st_blocks * 512
    assert [path for path, _, _ in found.people[20001].largest] == ["data/set", "data"] or [
        path for path, _, _ in found.people[20001].largest
    ] == ["data", "data/set"]
    assert found.people[20002].size.inodes == 1
    assert sum(one.size.bytes for one in found.people.values()) == du(home)


MINJI, JIHO = 20001, 20002


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """One disk for all: minji has much, and comes first by the order of names; jiho has a little, in three places."""
    for name, uid, count in (("a-minji", MINJI, 300), ("shared", 0, 0), ("z-jiho/runs", JIHO, 3)):
        (tmp_path / "local" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "local" / name / f"f{number}").write_bytes(b"x" * 5000)
            os.chown(tmp_path / "local" / name / f"f{number}", uid, uid)
        os.chown(tmp_path / "local" / name, uid, uid)
    os.chown(tmp_path / "local/z-jiho", JIHO, JIHO)
    for name, uid in (("shared/0-minji", MINJI), ("shared/1-jiho", JIHO), ("zz-jiho", JIHO)):
        (tmp_path / "local" / name).write_bytes(b"x" * 5000)
        os.chown(tmp_path / "local" / name, uid, uid)
    return tmp_path / "local"


def problems(found: Tree) -> dict[int, str]:
    return {uid: used.problem for uid, used in found.people.items() if used.problem}


@pytest.mark.root
def test_who_has_very_much_is_counted_in_part_and_the_others_wholly(scratch: Path) -> None:
    whole = measured(scratch, shares=Shares()).people
    found = measured(scratch, shares=Shares(entries=100))
    assert found.problem == ""
    assert problems(found) == {MINJI: "more than 100 entries"}
    assert found.people[MINJI].size.inodes == 100
    assert found.people[JIHO] == whole[JIHO]
    assert whole[JIHO].size.inodes == 7
    assert found.people[0] == whole[0]


@pytest.mark.root
def test_whose_files_take_long_is_counted_in_part(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    found = measured(scratch, shares=Shares(seconds=50))
    assert problems(found) == {MINJI: "takes longer than 50 seconds"}
    assert found.people[JIHO].size.inodes == 7


@pytest.mark.root
def test_a_directory_of_whoever_has_too_much_is_left_at_once(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = safe_walk._facts, []
    monkeypatch.setattr(safe_walk, "_facts", lambda entry, skip: asked.append(entry.path) or real(entry, skip))
    measured(scratch, shares=Shares(entries=100))
    assert sum(path.startswith(b"a-minji/") for path in asked) < 110


@pytest.mark.root
def test_subordinate_ids_are_their_persons(scratch: Path) -> None:
    for number in range(200):
        os.chown(scratch / f"a-minji/f{number}", 1 << 31 | number, 0)
    found = measured(scratch, shares=Shares(lambda uid: MINJI if uid >= 1 << 31 else uid, entries=100))
    assert set(found.people) == {0, MINJI, JIHO}
    assert problems(found) == {MINJI: "more than 100 entries"}


@pytest.mark.holds(
    "a directory that cannot be held ends nobody else's measuring", "names that could not be held are let go"
)
@pytest.mark.root
@pytest.mark.parametrize("what", ["names", "links", "path"])
def test_what_cannot_be_held_is_its_owners_part(scratch: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    if what == "links":
        for number in range(30):
            os.link(scratch / f"a-minji/f{number}", scratch / f"a-minji/g{number}")
        monkeypatch.setattr(limits, "LINKS", 10)
    elif what == "names":
        monkeypatch.setattr(budgets, "MEMORY", 3000)
    else:
        (scratch / "a-minji/deep" / ("d" * 200)).mkdir(parents=True)
        os.chown(scratch / "a-minji/deep", MINJI, MINJI)
        os.chown(scratch / "a-minji/deep" / ("d" * 200), MINJI, MINJI)
        monkeypatch.setattr(budgets, "PATH", 150)
    found = measured(scratch, shares=Shares())
    assert found.problem == ""
    assert set(problems(found)) == {MINJI}
    assert found.people[JIHO].size.inodes == 7


def test_what_is_another_place_is_left_out(home: Path) -> None:
    top = open_directory(str(home))
    found = measure(top, Budget(60), leave_out=lambda path: path == b"data/set")
    os.close(top)
    assert found.people[ALL].size.bytes == du(home) - du(home / "data/set")


def test_what_is_too_much_is_measured_in_part(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(home, entries=3)
    assert "more than 3 entries" in found.problem
    assert 0 < found.people[ALL].size.bytes < du(home)
    monkeypatch.setattr(package, "MOST_PEOPLE", 0)
    assert "more than 0 people" in measured(home, shares=Shares()).problem


def test_a_tree_of_any_depth(tmp_path: Path) -> None:
    os.close(descend(tmp_path, ["d" * 200] * 2000, make=True))
    found = measured(tmp_path)
    assert found.people[ALL].size.inodes == 2001
    assert max(len(path) for path, _, _ in found.people[ALL].largest) <= package.LONGEST
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


def test_what_moves_meanwhile_is_a_part_and_ends_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., object] = package._Sizes.enter
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_bytes(b"x" * 1_000_000)

    def enter(self: package._Sizes, path: bytes) -> None:
        if path == b"a/b/c":
            (home / "a/b").rename(elsewhere / "b")
            (home / "a/b").symlink_to(elsewhere)
        real(self, path)

    monkeypatch.setattr(package._Sizes, "enter", enter)
    found = measured(home)
    assert found.people[ALL].size.bytes < 2_000_000, "what is elsewhere is not counted"
    assert found.problem


def test_who_moves_things_about_keeps_nobody_else_from_being_measured(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that many people share is one walk. Out of ``a/b/c`` the way up leads elsewhere."""
    real: Callable[..., object] = package._Sizes.enter
    (tmp_path / "elsewhere").mkdir()

    def enter(self: package._Sizes, path: bytes) -> None:
        real(self, path)
        if path == b"a/b/c/d":
            (home / "a/b/c").rename(tmp_path / "elsewhere/c")

    monkeypatch.setattr(package._Sizes, "enter", enter)
    found = measured(home)
    assert "was moved while" in found.problem
    largest = {path: size for path, size, _inodes in found.people[ALL].largest}
    assert largest["data/set"] >= 900_000
    assert largest["a"] < 600_000, "what comes after it is not counted for it"


@pytest.mark.root
def test_a_mount_of_somebody_s_own_keeps_nobody_else_from_being_measured(home: Path) -> None:
    """As by sshfs: root itself may not look at it (FUSE without allow_other), and no server has to answer for that."""
    point = home / "a/mount"
    point.mkdir()
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        how = f"fd={device},rootmode=40000,user_id=20001,group_id=20001".encode()
        if ctypes.CDLL(None, use_errno=True).mount(b"mine", os.fsencode(point), b"fuse", 0, how):
            raise OSError(ctypes.get_errno(), "mount")
        try:
            with pytest.raises(PermissionError):
                point.stat()
            found = measured(home)
        finally:
            subprocess.run(["umount", "-l", point], check=True)
    finally:
        os.close(device)
    assert "cannot be looked at" in found.problem
    assert {path for path, _size, _inodes in found.people[ALL].largest} >= {"a/b", "data/set"}


@pytest.mark.root
def test_nothing_that_is_mounted_is_entered(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "big").write_bytes(b"x" * 2_000_000)
    point = home / "point"
    point.mkdir()
    before = measured(home).people[ALL].size.bytes
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", point], check=True)
    try:
        (point / "big").write_bytes(b"x" * 2_000_000)
        assert abs(measured(home).people[ALL].size.bytes - before) < 100_000
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.mark.btrfs
def test_subvolumes_below_are_counted_and_told(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "point", 256) as point:
        (point / "home").mkdir()
        assert not measured(point / "home").volumes
        subprocess.run(["btrfs", "subvolume", "create", point / "home/mine"], check=True, capture_output=True)
        (point / "home/mine/file").write_bytes(os.urandom(100_000))
        subprocess.run(["sync"], check=True)
        found = measured(point / "home")
        assert found.volumes
        assert found.people[ALL].size.bytes >= 100_000

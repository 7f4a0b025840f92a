"""btrfs on a file system in a file: subvolumes, what is below them, and where the data of a file is."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, extents
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs_tree import children
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.storage import Storage, mounted


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    """Where a btrfs is mounted."""
    with mounted(tmp_path / "disk", tmp_path / "point", 256) as found:
        yield found


@pytest.mark.btrfs
def test_what_is_a_subvolume(tmp_path: Path, point: Path) -> None:
    btrfs.create(str(point / "own"))
    (point / "own/directory").mkdir()
    (point / "link").symlink_to("own")
    (point / "file").write_text("")
    for other in ("own/directory", "link", "file", "nothing", "file/below"):
        assert btrfs.inspect(str(point / other)) is None, other
    assert btrfs.inspect(str(tmp_path)) is None
    own = btrfs.inspect(str(point / "own"))
    assert own is not None
    assert own == btrfs.subvolume(str(point / "own/directory"))
    assert (own.read_only, own.parent_uuid, own.received_uuid) == (False, "", "")
    assert list(btrfs.listing(str(point))) == ["own"]
    assert btrfs.listing(str(point / "nothing")) == {}
    with pytest.raises(FileExistsError):
        btrfs.create(str(point / "own"))


@pytest.mark.btrfs
def test_the_subvolume_that_a_directory_is_in(tmp_path: Path, point: Path) -> None:
    btrfs.create(str(point / "own"))
    (point / "own/homes").mkdir()
    bound = tmp_path / "bound"
    bound.mkdir()
    assert btrfs.holder(f"{point}/own/homes/") == str(point / "own")
    assert btrfs.holder(str(point)) == str(point)
    with pytest.raises(NodeError, match="is not on btrfs"):
        btrfs.holder(str(tmp_path))
    subprocess.run(["mount", "--bind", point / "own/homes", bound], check=True)
    try:
        with pytest.raises(NodeError, match="the subvolume it is in is not mounted as a whole"):
            btrfs.holder(str(bound))
    finally:
        subprocess.run(["umount", bound], check=True)


@pytest.mark.btrfs
def test_a_subvolume_that_is_written_to_is_the_same_one(point: Path) -> None:
    before = btrfs.inspect(str(point))
    (point / "file").write_text("")
    os.sync()
    assert btrfs.inspect(str(point)) == before


@pytest.mark.btrfs
def test_snapshots(point: Path) -> None:
    source = str(point / "source")
    btrfs.create(source)
    (point / "source/directory").mkdir()
    (point / "source/file").write_text("precious")
    handle = btrfs.open_directory(source)
    try:
        btrfs.snapshot(handle, str(point / "kept"))
    finally:
        os.close(handle)
    btrfs.snapshot(source, str(point / "writable"), read_only=False)
    found = btrfs.listing(str(point))
    assert {name: (one.read_only, one.parent_uuid) for name, one in found.items()} == {
        "kept": (True, found["source"].uuid), "source": (False, ""), "writable": (False, found["source"].uuid),
    }  # fmt: skip
    assert (point / "kept/file").read_text() == "precious"
    with pytest.raises(NodeError, match="kept exists already"):
        btrfs.snapshot(source, str(point / "kept"))
    with pytest.raises(NodeError, match="not a subvolume"):
        btrfs.snapshot(str(point / "source/directory"), str(point / "other"))
    assert not (point / "other").exists()


def test_a_deletion_is_durable_unless_it_need_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(btrfs, "run", lambda command, **_more: asked.append(command))
    btrfs.delete(["/a"])
    btrfs.delete(["/b"], durable=False)
    assert ["--commit-after" in command for command in asked] == [True, False]


@pytest.mark.btrfs
def test_deleting(point: Path) -> None:
    for name in ("one", "two", "three"):
        btrfs.create(str(point / name))
    btrfs.delete([str(point / "one"), str(point / "two")])
    btrfs.delete([str(point / "three")], durable=False)
    assert list(point.iterdir()) == []
    with pytest.raises(NodeError, match=r"one is not deleted: .*\(command: btrfs subvolume delete"):
        btrfs.delete([str(point / "one")])


def flags(path: Path) -> set[str]:
    """chattr's letters."""
    return set(subprocess.run(["lsattr", "-d", path], check=True, capture_output=True, text=True).stdout.split()[0]) - {
        "-"
    }


@pytest.mark.btrfs
@pytest.mark.parametrize("taken", ["+i", "+a", "+ai"])
def test_what_keeps_a_directory_from_being_renamed_is_taken_off(point: Path, taken: str) -> None:
    """And nothing else: its other flags stay, and a directory of a read-only subvolume makes that no writable one."""
    btrfs.create(str(point / "own"))
    (point / "own/directory").mkdir()
    for path in (point / "own", point / "own/directory"):
        subprocess.run(["chattr", taken + "d", path], check=True)
        assert moved(path) == (True, {"d"})
        assert btrfs.inspect(str(point / "own")).read_only is False  # type: ignore[union-attr]  # it is one
    btrfs.snapshot(str(point / "own"), str(point / "kept"))
    assert moved(point / "kept/directory") == (False, {"d"})
    assert btrfs.inspect(str(point / "kept")).read_only is True  # type: ignore[union-attr]  # it is one
    moved(point / "kept")
    assert btrfs.inspect(str(point / "kept")).read_only is False  # type: ignore[union-attr]  # it is one


def moved(path: Path) -> tuple[bool, set[str]]:
    """Whether chattr's flags were on it, before it was made movable, and what flags it has then."""
    before = flags(path)
    btrfs.make_movable(str(path))
    return bool(before & {"i", "a"}), flags(path)


def test_off_btrfs_there_is_nothing_to_take_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(btrfs, "SUBVOLUME_INODE", Path("/proc/1").stat().st_ino)  # there are others of that number
    btrfs.make_movable("/proc/1")  # a file system that knows neither question


def test_a_link_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    os.close(btrfs.open_directory(str(tmp_path / "real")))
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        btrfs.open_directory(str(tmp_path / "link"))
    top = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "real/inner").mkdir()
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        btrfs.open_deep("link/inner", top)
    os.close(btrfs.open_deep("real/inner", top))
    os.close(top)


@pytest.mark.btrfs
def test_those_directly_below(point: Path) -> None:
    btrfs.create(str(point / "own"))
    btrfs.create(str(point / "own/inner"))
    top = btrfs.open_directory(str(point))
    here = os.dup(top)
    for _ in range(25):  # more than the kernel has room for in an answer
        os.mkdir("d" * 200, dir_fd=here)
        here, above = btrfs.open_directory("d" * 200, here), here
        os.close(above)
    btrfs.create(f"/proc/self/fd/{here}/far")
    os.close(here)
    own = btrfs.open_directory("own", top)
    try:
        assert sorted(children(top)) == ["/".join(["d" * 200] * 25) + "/far", "own"]
        assert list(children(own)) == ["inner"]
    finally:
        os.close(own)
        os.close(top)


@pytest.mark.btrfs
def test_more_than_one_answer_holds(point: Path) -> None:
    names = [f"s{number}" for number in range(300)]
    for name in names:
        btrfs.create(str(point / name))
    top = btrfs.open_directory(str(point))
    try:
        assert sorted(children(top)) == sorted(names)
    finally:
        os.close(top)


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


@pytest.mark.holds("a budget of what a copy may write")
@pytest.mark.btrfs
def test_a_copy_has_a_limit_where_blocks_are_not_shared(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    source, target = os.open(tmp_path / "a", os.O_RDONLY), os.open("/dev/shm", os.O_RDWR | os.O_TMPFILE)
    with pytest.raises(NodeError, match="shares no blocks"):
        extents.copy(source, target, 10_000, Budget(written=9_999))
    extents.copy(source, target, 10_000, Budget(written=10_000))
    os.close(source)
    os.close(target)

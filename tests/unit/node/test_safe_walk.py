"""Walks through a tree whose owner moves things about, and deletions: they go by what was decided."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import inode_flags, purge, safe_walk
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry, same_file_system, walk

from tests.support.lock_holder import held
from tests.support.storage import mounted, run


@pytest.fixture
def opened(tree: Path) -> Iterator[int]:
    handle = os.open(tree, os.O_RDONLY)
    yield handle
    os.close(handle)


def test_the_order_and_the_way_up(opened: int) -> None:
    found = [(entry.path, entry.leaving) for entry in walk(opened, leaving=True)]
    assert found == [
        (b"a", False), (b"a/b", False), (b"a/b/c", False), (b"a/b", True), (b"a/z", False), (b"a", True),
        (b"other", False), (b"other/secret", False), (b"other", True), (b"z", False),
    ]  # fmt: skip
    names = [entry.name for entry in walk(opened, leaving=True) if entry.leaving]
    assert names == [b"b", b"a", b"other"]


def exchanging(tree: Path, *, link: bool) -> object:
    """What to enter, and on the way into ``a`` somebody puts another directory, or a link, in its place."""

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        if entry.path == b"a" and not (tree / "aside").exists():
            (tree / "a").rename(tree / "aside")
            if link:
                (tree / "a").symlink_to("other")
            else:
                (tree / "other").rename(tree / "a")
        return same_file_system(entry, parent)

    return enter


@pytest.mark.parametrize("link", [False, True])
def test_a_directory_that_is_exchanged_is_not_entered(tree: Path, opened: int, link: bool) -> None:
    with pytest.raises((NodeError, OSError)):
        list(walk(opened, exchanging(tree, link=link)))


@pytest.mark.parametrize("link", [False, True])
def test_one_that_is_exchanged_is_named_and_the_others_go_on(tree: Path, opened: int, link: bool) -> None:
    skipped: list[tuple[bytes, str]] = []
    found = [
        entry.path
        for entry in walk(
            opened,
            exchanging(tree, link=link),
            skip=lambda entry, why: skipped.append((entry.path, why)),
        )
    ]
    assert [path for path, _why in skipped] == [b"a"]
    assert b"a/secret" not in found
    assert b"z" in found


def test_a_directory_that_is_moved_away_is_not_left_to_where_it_is(tree: Path, opened: int) -> None:
    """``..`` would lead to another place."""
    found = walk(opened)
    assert [next(found).path for _ in range(3)] == [b"a", b"a/b", b"a/b/c"]
    (tree / "a/b").rename(tree / "other/b")
    with pytest.raises(NodeError, match="was moved"):
        next(found)


def test_names_are_let_go(opened: int) -> None:
    budget = Budget()
    before = budget._room
    assert len(list(walk(opened, budget=budget))) == 7
    assert budget._room == before


@pytest.mark.btrfs
def test_a_subvolume_is_entered_and_a_mounted_one_is_not(tmp_path: Path) -> None:
    """Both have a device of their own, and both are subvolumes of this file system."""
    with mounted(tmp_path / "disk", tmp_path / "srv", 128) as point:
        (point / "top").mkdir()
        run("btrfs", "subvolume", "create", point / "top/inner")
        run("btrfs", "subvolume", "create", point / "elsewhere")
        (point / "top/inner/file").touch()
        (point / "elsewhere/precious").touch()
        (point / "top/door").mkdir()
        run("mount", "-o", "bind", point / "elsewhere", point / "top/door")
        top = os.open(point / "top", os.O_RDONLY)
        found = [entry.path for entry in walk(top, safe_walk.same_mount)]
        assert found == [b"door", b"inner", b"inner/file"]
        above = os.open(point, os.O_RDONLY)
        done = purge.purge(above, b"top", lambda entry: None)
        assert done.words[0] == "'door' is mounted there"
        assert (point / "elsewhere/precious").exists()
        assert not (point / "top/inner").exists()
        run("umount", point / "top/door")
        for handle in (top, above):
            os.close(handle)


@pytest.mark.root
def test_a_part_of_the_same_file_system_that_is_mounted_is_not_entered(tmp_path: Path) -> None:
    """`mount --bind` of another directory has the device of what is around it: only the mount tells."""
    for path in (tmp_path / "top/door", tmp_path / "top/inner", tmp_path / "shared"):
        path.mkdir(parents=True)
    (tmp_path / "shared/precious").touch()
    run("mount", "-o", "bind", tmp_path / "shared", tmp_path / "top/door")
    top, above = (os.open(path, os.O_RDONLY) for path in (tmp_path / "top", tmp_path))
    try:
        assert [entry.path for entry in walk(top, safe_walk.same_mount)] == [b"door", b"inner"]
        done = purge.purge(above, b"top", lambda entry: None)
    finally:
        for handle in (top, above):
            os.close(handle)
        run("umount", tmp_path / "top/door")
    assert (done.kept, done.words) == (1, ["'door' is mounted there"])
    assert (tmp_path / "shared/precious").exists()


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    """When a directory was read last: on btrfs that would be a change to each of a home, in every walk."""
    (tmp_path / "a/b").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "a", tmp_path / "a/b"):
        os.utime(path, (1000, 2000))
    top = os.open(tmp_path, os.O_RDONLY)
    list(walk(top))
    os.close(top)
    assert [int(path.stat().st_atime) for path in (tmp_path, tmp_path / "a", tmp_path / "a/b")] == [1000] * 3


def test_a_deletion_in_which_somebody_moves_things_ends_nothing_else(
    tree: Path, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is moved away is kept and named."""
    real = purge._remove

    def moving(entry: Entry, directory: bool) -> None:
        if entry.path == b"b/c":
            (tree / "a/b").rename(tree / "other/b")
        real(entry, directory)

    monkeypatch.setattr(purge, "_remove", moving)
    done = purge.purge(opened, b"a", lambda entry: None)
    assert done.kept == 1
    assert "was moved while it was looked at" in done.words[0]
    assert purge.purge(opened, b"other", lambda entry: None).kept == 0
    assert sorted(path.name for path in tree.iterdir()) == ["a", "z"]


def test_a_file_that_somebody_has_a_lease_on_is_not_waited_for(tmp_path: Path) -> None:
    """Opening it would wait for as long as the lease's holder likes, up to lease-break-time, and then fail."""
    for side in ("home", "backup"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "f").write_bytes(b"x")
    with held(tmp_path / "home/f", "lease"):
        one, other = os.open(tmp_path / "home", os.O_RDONLY), os.open(tmp_path / "backup", os.O_RDONLY)
        assert purge._same_content(one, other, b"f", 1) is False
    assert purge._same_content(one, other, b"f", 1) is True
    os.close(one)
    os.close(other)


def test_what_is_of_another_kind_than_in_the_backup_stays(tmp_path: Path) -> None:
    """Also an empty directory: somebody has made it where a file was."""
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup/f").write_bytes(b"x")
    (tmp_path / "home/f").mkdir(parents=True)
    handle = os.open(tmp_path, os.O_RDONLY)
    with purge.Twin(str(tmp_path / "backup"), {}) as twin:
        done = purge.purge(handle, b"home", twin.judge, itself=lambda entry: None)
    os.close(handle)
    assert done.words == ["'f' is not what it is in the backup"]
    assert (tmp_path / "home/f").is_dir()


@pytest.mark.root
def test_what_cannot_be_deleted_is_named(tree: Path, opened: int) -> None:
    """Who asks for a deletion that has to be whole is told that it was not."""
    run("mount", "-o", "bind", tree / "z", tree / "other/secret")
    try:
        done = purge.purge(opened, b"other", lambda entry: None)
        with pytest.raises(NodeError, match="'secret' cannot be deleted"):
            purge.gone(opened, "other")
    finally:
        run("umount", tree / "other/secret")
    assert (done.kept, done.words) == (1, ["'secret' cannot be deleted: Device or resource busy"])


def test_a_directory_that_is_exchanged_on_the_way_in_is_kept_and_named(
    tree: Path, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = purge.enter

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        if entry.path == b"b":
            (tree / "a/b").rename(tree / "other/b")
            (tree / "a/b").mkdir()
        return real(entry, parent)

    monkeypatch.setattr(purge, "enter", enter)
    done = purge.purge(opened, b"a", lambda entry: None)
    assert (done.kept, done.words) == (1, ["'b' was exchanged while it was looked at"])
    assert (tree / "other/b").is_dir()


@pytest.mark.holds("no flag is taken off what a link leads to")
def test_no_flag_is_taken_off_what_a_link_leads_to(tree: Path, opened: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[int] = []

    def refused(entry: Entry, directory: bool) -> None:
        if entry.name == b"secret" and not (tree / "other/secret").is_symlink():
            (tree / "other/secret").unlink()
            (tree / "other/secret").symlink_to(tree / "z")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(purge, "_remove", refused)
    monkeypatch.setattr(inode_flags, "clear", lambda handle: cleared.append(os.fstat(opened).st_ino))
    done = purge.purge(opened, b"other", lambda entry: None)
    assert (tree / "z").stat().st_ino not in cleared
    assert done.words[0] == "'secret' cannot be deleted: Too many levels of symbolic links"


def test_what_is_asked_for_is_judged_itself(tree: Path, opened: int) -> None:
    for name in (b"z", b"other"):
        done = purge.purge(opened, name, lambda entry: "is somebody else's")
        assert done.kept == 1
    assert sorted(path.name for path in tree.iterdir()) == ["a", "other", "z"]

"""The walk through a tree whose owner moves things about meanwhile, and the deletion that goes by it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, descend, purge
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest, renaming
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.descend import Entry, same_file_system, walk
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.unit.node.storage import mounted, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    for path in ("a/b/c", "a/z", "other/secret", "z"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(b"x")
    return top


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
        list(walk(opened, exchanging(tree, link=link)))  # type: ignore[arg-type]


@pytest.mark.parametrize("link", [False, True])
def test_one_that_is_exchanged_is_named_and_the_others_go_on(tree: Path, opened: int, link: bool) -> None:
    skipped: list[tuple[bytes, str]] = []
    found = [
        entry.path
        for entry in walk(
            opened,
            exchanging(tree, link=link),  # type: ignore[arg-type]
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


@pytest.mark.root
def test_a_file_that_becomes_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "target").write_bytes(b"secret")
    facts = os.lstat(tmp_path / "file")
    (tmp_path / "file").unlink()
    (tmp_path / "file").symlink_to("target")
    top = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="symbolic links"):
        home_manifest.Reader().line(Entry(b"file", b"file", top, facts), "file")
    os.close(top)


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
        found = [entry.path for entry in walk(top, descend.same_mount)]
        assert found == [b"door", b"inner", b"inner/file"]
        above = os.open(point, os.O_RDONLY)
        done = purge.purge(above, b"top", lambda entry: None)
        assert done.reasons[0] == "'door' is something that is mounted there"
        assert (point / "elsewhere/precious").exists()
        assert not (point / "top/inner").exists()
        run("umount", point / "top/door")
        for handle in (top, above):
            os.close(handle)


def test_a_deletion_in_which_somebody_moves_things_ends_nothing_else(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is moved away is kept and named."""
    real = purge._remove

    def moving(entry: Entry, directory: bool) -> None:
        if entry.path == b"b/c":
            (tree / "a/b").rename(tree / "other/b")
        real(entry, directory)

    monkeypatch.setattr(purge, "_remove", moving)
    handle = os.open(tree, os.O_RDONLY)
    done = purge.purge(handle, b"a", lambda entry: None)
    assert done.kept == 1
    assert "was moved while it was looked at" in done.reasons[0]
    assert purge.purge(handle, b"other", lambda entry: None).kept == 0
    assert sorted(path.name for path in tree.iterdir()) == ["a", "z"]
    os.close(handle)


def test_a_file_that_somebody_has_a_lease_on_is_not_waited_for(tmp_path: Path) -> None:
    """Opening it would wait for as long as the lease's holder likes, up to lease-break-time, and then fail."""
    for side in ("home", "backup"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "f").write_bytes(b"x")
    program = (
        "import fcntl, os, signal, sys, time; h = os.open(sys.argv[1], os.O_RDWR);"
        "signal.signal(signal.SIGIO, signal.SIG_IGN); fcntl.fcntl(h, fcntl.F_SETLEASE, fcntl.F_WRLCK);"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "home/f")], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        one, other = os.open(tmp_path / "home", os.O_RDONLY), os.open(tmp_path / "backup", os.O_RDONLY)
        assert purge._same_content(one, other, b"f", 1) is False
        holder.kill()
    assert purge._same_content(one, other, b"f", 1) is True
    os.close(one)
    os.close(other)


def test_a_name_that_is_taken_is_not_given(tmp_path: Path) -> None:
    for name in ("new", "taken"):
        (tmp_path / name).mkdir()
    top = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(NodeError, match="has just appeared"):
        renaming.rename_new("new", top, "taken", top)
    with pytest.raises(FileNotFoundError):
        renaming.rename_new("none", top, "free", top)
    renaming.rename_new("new", top, "free", top)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["free", "taken"]
    os.close(top)

"""A deletion goes by what was decided, whatever is moved there meanwhile."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import inode_flags, purge
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry

from tests.support.lock_holder import held
from tests.support.storage import run


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
    assert "was moved while it was looked at" in done.words[0]
    assert purge.purge(handle, b"other", lambda entry: None).kept == 0
    assert sorted(path.name for path in tree.iterdir()) == ["a", "z"]
    os.close(handle)


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
def test_what_cannot_be_deleted_is_named(tree: Path) -> None:
    """Who asks for a deletion that has to be whole is told that it was not."""
    run("mount", "-o", "bind", tree / "z", tree / "other/secret")
    handle = os.open(tree, os.O_RDONLY)
    try:
        done = purge.purge(handle, b"other", lambda entry: None)
        with pytest.raises(NodeError, match="'secret' cannot be deleted"):
            purge.gone(handle, "other")
    finally:
        run("umount", tree / "other/secret")
        os.close(handle)
    assert (done.kept, done.words) == (1, ["'secret' cannot be deleted: Device or resource busy"])


def test_a_directory_that_is_exchanged_on_the_way_in_is_kept_and_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = purge.enter

    def enter(entry: Entry, parent: os.stat_result) -> bool:
        if entry.path == b"b":
            (tree / "a/b").rename(tree / "other/b")
            (tree / "a/b").mkdir()
        return real(entry, parent)

    monkeypatch.setattr(purge, "enter", enter)
    handle = os.open(tree, os.O_RDONLY)
    done = purge.purge(handle, b"a", lambda entry: None)
    os.close(handle)
    assert (done.kept, done.words) == (1, ["'b' was exchanged while it was looked at"])
    assert (tree / "other/b").is_dir()


@pytest.mark.holds("no flag is taken off what a link leads to")
def test_no_flag_is_taken_off_what_a_link_leads_to(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[int] = []

    def refused(entry: Entry, directory: bool) -> None:
        if entry.name == b"secret" and not (tree / "other/secret").is_symlink():
            (tree / "other/secret").unlink()
            (tree / "other/secret").symlink_to(tree / "z")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(purge, "_remove", refused)
    monkeypatch.setattr(inode_flags, "clear", lambda handle: cleared.append(os.fstat(handle).st_ino))
    handle = os.open(tree, os.O_RDONLY)
    done = purge.purge(handle, b"other", lambda entry: None)
    os.close(handle)
    assert (tree / "z").stat().st_ino not in cleared
    assert done.words[0] == "'secret' cannot be deleted: Too many levels of symbolic links"


def test_what_is_asked_for_is_judged_itself(tree: Path) -> None:
    handle = os.open(tree, os.O_RDONLY)
    for name in (b"z", b"other"):
        done = purge.purge(handle, name, lambda entry: "is somebody else's")
        assert done.kept == 1
    os.close(handle)
    assert sorted(path.name for path in tree.iterdir()) == ["a", "other", "z"]

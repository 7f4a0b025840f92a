"""A deletion goes by what was decided, whatever is moved there meanwhile."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import purge
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry

from tests.support.lock_holder import held


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
    with held(tmp_path / "home/f", "lease"):
        one, other = os.open(tmp_path / "home", os.O_RDONLY), os.open(tmp_path / "backup", os.O_RDONLY)
        assert purge._same_content(one, other, b"f", 1) is False
    assert purge._same_content(one, other, b"f", 1) is True
    os.close(one)
    os.close(other)

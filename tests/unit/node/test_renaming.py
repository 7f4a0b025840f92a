"""A name that somebody has taken is not given."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import renaming
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError


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

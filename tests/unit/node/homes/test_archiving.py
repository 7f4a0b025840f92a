"""An archived home: packed, verified, and only then deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import archiving


@pytest.mark.parametrize("name", ["../other", "", ".", "a/b"])
def test_nothing_is_archived_by_a_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    (other / "b").mkdir(parents=True)
    (tmp_path / "homes").mkdir()
    given = {"homes": str(tmp_path / "homes"), "name": name, "uid": os.getuid(), "directory": str(tmp_path / "archive"),
             "inode": other.stat().st_ino}  # fmt: skip
    with pytest.raises(NodeError, match="not a user's name"):
        archiving.archive(given)
    assert other.exists()

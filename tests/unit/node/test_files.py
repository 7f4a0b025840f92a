"""Files and locks of root: nobody else's lock is taken, and no link is written through."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files


def test_a_file_is_not_written_through_a_link_that_has_just_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_text("not ours")
    (tmp_path / ".file.gpuadmin-new").symlink_to("other")
    monkeypatch.setattr(files.os, "unlink", lambda path: None)  # it has been made again since
    with pytest.raises(FileExistsError):
        files.write_atomic(str(tmp_path / "file"), b"ours", mode=0o600)
    assert (tmp_path / "other").read_text() == "not ours"

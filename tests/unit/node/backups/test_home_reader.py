"""What of a home is read into its manifest."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_reader
from ansible_collections.gpuadmin.node.plugins.module_utils.safe_walk import Entry


@pytest.mark.root
def test_a_file_that_becomes_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "target").write_bytes(b"secret")
    facts = os.lstat(tmp_path / "file")
    (tmp_path / "file").unlink()
    (tmp_path / "file").symlink_to("target")
    top = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="symbolic links"):
        home_reader.Reader().line(Entry(b"file", b"file", top, facts), "file")
    os.close(top)

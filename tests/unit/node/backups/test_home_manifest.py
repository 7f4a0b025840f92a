"""The manifest of a home: what is read into it, and what is read from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.descend import Entry
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError


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


@pytest.mark.btrfs
def test_a_manifest_that_is_one_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    path = tmp_path / "x.gz"
    monkeypatch.setattr(home_manifest, "_LONGEST", 100)
    with gzip.open(path, "wt") as stream:
        stream.write("[" + " " * 1000 + "]")
    with pytest.raises(NodeError, match="cannot be read"):
        list(home_manifest.read(str(path)))

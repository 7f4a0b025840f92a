"""The manifest of a home, read from its file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError


def test_a_manifest_that_is_one_endless_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.gz"
    monkeypatch.setattr(home_manifest, "_LONGEST", 100)
    with gzip.open(path, "wt") as stream:
        stream.write("[" + " " * 1000 + "]")
    with pytest.raises(NodeError, match="cannot be read"):
        list(home_manifest.read(str(path)))

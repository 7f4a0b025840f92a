"""What a node was told of limits is read as it was written, and not written again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import records


@dataclass(frozen=True)
class Told:
    most: str


def test_a_record_comes_and_goes(tmp_path: Path) -> None:
    path = str(tmp_path / "state/told.json")
    assert records.load(Told, path) is None
    assert (records.differs(path, None), records.differs(path, Told("5%"))) == (False, True)
    records.record(path, None)
    records.record(path, Told("5%"))
    assert records.load(Told, path) == Told("5%")
    assert (records.differs(path, Told("5%")), records.differs(path, Told("6%"))) == (False, True)
    before = Path(path).stat().st_ino
    records.record(path, Told("5%"))
    assert Path(path).stat().st_ino == before, "it was written again"
    records.record(path, None)
    assert not Path(path).exists()


def test_a_record_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    records.record(str(tmp_path / "told.json"), Told("5%"))
    assert len(synced) == 2, "the file, and its name"


@pytest.mark.parametrize("text", ["{", "[]", '{"most": 5}', "{}"])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "told.json"
    path.write_text(text)
    with pytest.raises(NodeError, match=r"told\.json"):
        records.load(Told, str(path))

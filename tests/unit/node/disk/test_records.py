"""What is kept from day to day; a damaged file is told, and never believed."""

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Found, Record, load, save
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

RECORDS = {("homes", "mi\udcffnji"): Record({"20001": Found(5, 2, [("a\udcff/b", 4, 1)])}, 10.0, 11.0, 7, 8, "x")}


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    at = str(tmp_path / "metrics/disk.json")
    assert load(at) == {}
    save(RECORDS, at)
    assert load(at) == RECORDS
    assert Path(at).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format": 2, "records": []}', b'{"format": 1, "records": [[1, 2]]}'])
def test_what_is_damaged_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "disk.json").write_bytes(data)
    with pytest.raises(NodeError, match="measured again"):
        load(str(tmp_path / "disk.json"))
    save(RECORDS, str(tmp_path / "disk.json"))
    found = json.loads((tmp_path / "disk.json").read_text())
    found["records"][0][2]["people"] = {"x": {}}
    (tmp_path / "disk.json").write_text(json.dumps(found))
    with pytest.raises(NodeError, match="measured again"):
        load(str(tmp_path / "disk.json"))

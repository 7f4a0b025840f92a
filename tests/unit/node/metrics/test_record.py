"""The sampler's record: its account has no rights, and what it writes is held to its form."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import record
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICE = {"uuid": "GPU-1", "minor": 0, "gi": None, "ci": None, "busy": True, "processes": [[7, 100], [8, None]]}


def test_a_record(tmp_path: Path) -> None:
    at = tmp_path / "gpus.json"
    at.write_text(json.dumps({"seconds": 5.5, "devices": [DEVICE]}))
    found = record.read(str(at))
    assert found is not None
    assert found == record.Record(5.5, (record.Device("GPU-1", 0, None, None, True, {7: 100, 8: None}),))
    assert record.read(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "changes",
    [{"uuid": ""}, {"uuid": 1}, {"uuid": "x" * 97}, {"minor": -1}, {"minor": True}, {"busy": 1}, {"processes": {}},
     {"processes": [[1]]}, {"processes": [["1", 2]]}, {"processes": [[None, 2]]}, {"processes": [[1, 1]] * 5000}],
)  # fmt: skip
def test_what_is_no_record(tmp_path: Path, changes: dict[str, Any]) -> None:
    at = tmp_path / "gpus.json"
    at.write_text(json.dumps({"seconds": 5.5, "devices": [{**DEVICE, **changes}]}))
    with pytest.raises(NodeError, match="not a record"):
        record.read(str(at))


def test_more_than_a_node_has_is_refused() -> None:
    """Each becomes series, and work for root."""
    many = [{**DEVICE, "uuid": f"GPU-{number}"} for number in range(record.MOST_DEVICES + 1)]
    assert len(record.parse({"seconds": 1, "devices": many[1:]}).devices) == record.MOST_DEVICES
    with pytest.raises(ValueError, match="devices"):
        record.parse({"seconds": 1, "devices": many})
    full = [{**DEVICE, "processes": [[pid + 1, 1] for pid in range(record._MOST_OF_ONE)]}]
    assert len(record.parse({"seconds": 1, "devices": full * 4}).devices) == 4
    with pytest.raises(ValueError, match="processes"):
        record.parse({"seconds": 1, "devices": full * 5})
    with pytest.raises(ValueError, match="processes"):
        record.parse({"seconds": 1, "devices": [{**DEVICE, "processes": [[pid, 1] for pid in range(1, 2050)]}]})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"seconds": NaN, "devices": []}',
        b"[" * 100_000,
        b"\xff",
        b'{"seconds": 1e999, "devices": []}',
    ],
)
def test_what_is_no_json(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "gpus.json").write_bytes(data)
    with pytest.raises(NodeError, match="not a record"):
        record.read(str(tmp_path / "gpus.json"))


def test_what_anybody_may_write_is_not_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "gpus.json").write_text(json.dumps({"seconds": 1, "devices": []}))
    with pytest.raises(NodeError, match="by anybody"):
        record.read(str(tmp_path / "gpus.json"))


def test_a_pipe_or_a_link_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NodeError):
        record.read(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        record.read(str(tmp_path / "link"))


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(DEVICE),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["seconds", "devices", *DEVICE]), inner, max_size=6)
        ),
        max_leaves=20,
    )
)
def test_anything_else_is_refused_and_ends_nothing(found: object) -> None:
    try:
        parsed = record.parse(found)
    except (ValueError, TypeError, KeyError):
        return
    assert parsed.seconds >= 0

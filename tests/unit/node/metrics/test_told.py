"""The sampler's record: its account has no rights, and what it writes is held to its form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import told
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICE = {"uuid": "GPU-1", "minor": 0, "gi": None, "ci": None, "busy": True, "processes": [[7, 100], [8, None]]}


def test_a_record(tmp_path: Path) -> None:
    at = tmp_path / "gpus.json"
    at.write_text(json.dumps({"seconds": 5.5, "devices": [DEVICE]}))
    found = told.read(str(at))
    assert found is not None
    assert found == told.Record(5.5, (told.Device("GPU-1", 0, None, None, True, {7: 100, 8: None}),))
    assert told.read(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "changes",
    [{"uuid": ""}, {"uuid": 1}, {"uuid": "x" * 97}, {"minor": -1}, {"minor": True}, {"busy": 1}, {"processes": {}},
     {"processes": [[1]]}, {"processes": [["1", 2]]}, {"processes": [[None, 2]]}, {"processes": [[1, 1]] * 5000}],
)  # fmt: skip
def test_what_is_no_record(tmp_path: Path, changes: dict[str, Any]) -> None:
    at = tmp_path / "gpus.json"
    at.write_text(json.dumps({"seconds": 5.5, "devices": [{**DEVICE, **changes}]}))
    with pytest.raises(NodeError, match="no record"):
        told.read(str(at))


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
    with pytest.raises(NodeError, match="no record"):
        told.read(str(tmp_path / "gpus.json"))


def test_what_anybody_may_write_is_not_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "gpus.json").write_text(json.dumps({"seconds": 1, "devices": []}))
    with pytest.raises(NodeError, match="by anybody"):
        told.read(str(tmp_path / "gpus.json"))


def test_a_pipe_or_a_link_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NodeError):
        told.read(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        told.read(str(tmp_path / "link"))


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
        record = told.parse(found)
    except (ValueError, TypeError, KeyError):
        return
    assert record.seconds >= 0

"""Who holds a GPU without a grant, as a table; and what of a node is not readable ends nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.gpu_holders import Holding
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.granting import Granted, look, ungranted
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.record import Device

GPU = Device("GPU-0", 0, None, None, None, {})
OTHER = Device("GPU-1", 1, None, None, None, {})
PART = Device("MIG-1", 1, 7, 0, None, {})
DEVICES = (GPU, OTHER, PART)
HERS = Grant("a1", "minji", 20000, ["GPU-0"], 1000, 2000, "root@nas", "a deadline")
UIDS = {"minji": 20000, "jiho": 20001, "admin": 1000, "root": 0, "(unknown)": None}


@pytest.mark.parametrize(
    ("uuid", "user", "lacks"),
    [
        ("GPU-0", "minji", False),
        ("GPU-1", "minji", True),  # she was granted another one
        ("GPU-0", "jiho", True),  # it is granted to somebody else
        ("GPU-0", "admin", False),
        ("GPU-0", "root", False),
        ("GPU-0", "(unknown)", False),
        ("GPU-0", "gone", False),  # nobody knows who that is
        ("GPU-9", "minji", False),  # nor which GPU this is
    ],
)
def test_who_needs_a_grant_and_has_none(uuid: str, user: str, lacks: bool) -> None:
    granted = Granted([HERS], {}, {"admin"})
    found = ungranted({(uuid, user, "train"): Holding()}, DEVICES, UIDS, granted)
    assert found == ({(uuid, user)} if lacks else set())


def test_a_part_of_a_gpu_is_granted_with_it() -> None:
    granted = Granted([replace(HERS, gpus=["GPU-1"])], {}, ())
    held = {("MIG-1", "minji", ""): Holding(), ("MIG-1", "jiho", ""): Holding()}
    assert ungranted(held, DEVICES, UIDS, granted) == {("MIG-1", "jiho")}


def test_a_gpu_by_its_device_files() -> None:
    granted = Granted([replace(HERS, gpus=["first"])], {"first": ["/dev/nvidia0"], "second": ["/dev/nvidia1"]}, ())
    assert granted.of(GPU, DEVICES) == list(granted.grants)
    assert granted.of(OTHER, DEVICES) == []


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "gpu-gate.json"
    path.write_text(json.dumps({"access": "granted", "exempt": ["admin"]}))
    return str(path)


def test_what_is_in_force(tmp_path: Path, settings: str) -> None:
    for one in (HERS, replace(HERS, id="b2", until=1400)):
        grants.write(one, str(tmp_path))
    found = look(1500, str(tmp_path), settings)
    assert found == Granted([HERS], {}, ["admin"])
    early = look(500, str(tmp_path), settings)  # the clock was put back: nobody's work is ended for that
    assert early is not None
    assert len(early.grants) == 2
    assert look(1500, str(tmp_path), str(tmp_path / "none")) is None, "GPUs are open to everybody"


@pytest.mark.holds("a grant that cannot be read ends nobody's work")
def test_a_grant_that_cannot_be_read_ends_nothing(tmp_path: Path, settings: str) -> None:
    grants.write(HERS, str(tmp_path))
    (tmp_path / "gpu-grants" / "b2.json").write_text("{")
    with pytest.raises(NodeError, match="b2"):
        look(1500, str(tmp_path), settings)


def test_a_grant_of_a_gpu_is_told_once() -> None:
    part = Grant("b2", "jiho", 20002, ["MIG-1"], 0, 100, "root@nas")
    whole = Grant("c3", "minji", 20001, ["GPU-1"], 0, 100, "root@nas")
    granted = Granted([part, whole], {}, ())
    assert granted.naming(PART, DEVICES) == [part]
    assert [granted.naming(one, DEVICES) for one in DEVICES if one.uuid == "GPU-1"] == [[whole]]

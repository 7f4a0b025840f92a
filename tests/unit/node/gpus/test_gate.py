"""The gate's text, and what was last tried of it."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Settings
from hypothesis import given
from hypothesis import strategies as st

LETTERS = st.text("nvidar-/1c", min_size=1, max_size=6)
GRANTED = Settings("granted")


@given(st.lists(LETTERS, min_size=1, max_size=4), LETTERS)
def test_every_name_is_allowed_that_does_not_begin_like_one_of_them(beginnings: list[str], name: str) -> None:
    allowed = any(fnmatchcase(name, one) for one in gate.all_but(beginnings))
    assert allowed is not name.startswith(tuple(beginnings))


@pytest.mark.parametrize(
    "name", ["nvidia", "nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia-caps-imex-channels", "nvidia-nvswitch", "drm"]
)
def test_no_group_of_a_gpu_is_allowed(name: str) -> None:
    patterns = [one.partition(" ")[0][len("char-") :] for one in gate.allowed(GRANTED) if one.startswith("char-")]
    assert not any(fnmatchcase(name, one) for one in patterns)


@pytest.mark.parametrize(
    "name", ["mem", "tty", "pts", "misc", "input", "n", "nv", "nvme", "nvram", "d", "fuse", "vfio"]
)
def test_other_devices_stay_as_they_are(name: str) -> None:
    patterns = [one.partition(" ")[0][len("char-") :] for one in gate.allowed(GRANTED) if one.startswith("char-")]
    assert any(fnmatchcase(name, one) for one in patterns)


def test_a_grant_adds_its_device_files_alone() -> None:
    more = set(gate.allowed(GRANTED, ["/dev/nvidia1", "/dev/dri/renderD129"])) - set(gate.allowed(GRANTED))
    assert more == {"/dev/nvidia1 rw", "/dev/dri/renderD129 rw"}


def test_a_list_is_told_whole() -> None:
    told = gate.properties(gate.allowed(GRANTED))
    assert told[:2] == ["DevicePolicy=closed", "DeviceAllow="]
    assert len(told) > 5
    # an empty list alone would leave the old one in force in what runs
    everything = ["DevicePolicy=closed", "DeviceAllow=", "DeviceAllow=block-* rwm", "DeviceAllow=char-* rwm"]
    assert gate.properties(None) == gate.properties([]) == everything


def test_the_drop_in_takes_away_no_grant() -> None:
    """An empty DeviceAllow= there, or a name after 50-DeviceAllow.conf, would win over what was granted."""
    lines = gate.drop_ins(GRANTED)[gate.PATHS[gate.SLICES]].splitlines()
    assert "[Slice]" in lines
    assert "DeviceAllow=" not in lines
    assert "DevicePolicy=closed" in lines
    assert gate.DROP_IN < "50-DeviceAllow.conf"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is damaged"),
        ("[]", "not a mapping"),
        ('{"access": "closed"}', "neither open nor granted"),
        ('{"access": "granted", "groups": [""]}', "has no name"),
        ('{"access": "granted", "groops": []}', "groops"),
    ],
)
def test_settings_that_are_not_understood(text: str, why: str) -> None:
    with pytest.raises(NodeError, match=why):
        gate.load(text.encode())
    assert gate.load(json.dumps({"access": "open"}).encode()).access == "open"


NOW = 10_000.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "var/lib/gpuadmin").mkdir(parents=True)
    (tmp_path / "run/gpuadmin").mkdir(parents=True)
    (tmp_path / "var/lib/gpuadmin/gpu-gate.json").write_text('{"access": "granted"}')
    monkeypatch.setattr(gate, "_clock", lambda: NOW)
    return tmp_path


def write(root: Path, *problems: str) -> None:
    gate.write_trial(problems, str(root / "run/gpuadmin"))


def test_a_gate_that_is_closed(root: Path) -> None:
    write(root)
    assert gate.problems(str(root)) == []


def test_what_was_wrong_is_said(root: Path) -> None:
    write(root, "ssh.service: /dev/nvidia1 can be opened, and is not granted")
    assert gate.problems(str(root)) == ["ssh.service: /dev/nvidia1 can be opened, and is not granted"]


def test_a_gate_that_nobody_tried_is_not_closed(root: Path) -> None:
    (problem,) = gate.problems(str(root)) or []
    assert "was not tried since the boot" in problem


def test_a_gate_that_was_tried_long_ago_is_not_closed(root: Path) -> None:
    write(root)
    assert gate.problems(str(root), NOW + gate.LATE) == []
    (problem,) = gate.problems(str(root), NOW + gate.LATE + 60) or []
    assert problem.startswith("the GPUs' gate was last tried 6 minutes ago")


@pytest.mark.parametrize("text", ["{", "[]", '{"seconds": "x", "problems": []}'])
def test_a_damaged_record_is_not_closed(root: Path, text: str) -> None:
    (root / "run/gpuadmin" / gate.RECORD).write_text(text)
    assert gate.problems(str(root)) == [f"whether the GPUs' gate is closed is not known: {gate.RECORD} is damaged"]


def test_damaged_settings_are_not_closed(root: Path) -> None:
    (root / "var/lib/gpuadmin/gpu-gate.json").write_text("{")
    (problem,) = gate.problems(str(root)) or []
    assert "is damaged" in problem


def test_where_everybody_may_nothing_is_wrong(root: Path) -> None:
    settings = root / "var/lib/gpuadmin/gpu-gate.json"
    settings.write_text('{"access": "open"}')
    assert gate.problems(str(root)) is None
    settings.unlink()
    assert gate.problems(str(root)) is None

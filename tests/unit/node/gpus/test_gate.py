"""The gate's lists: every device group but the GPUs' is allowed, and never is an empty list told alone."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

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

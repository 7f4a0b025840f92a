"""Hints: what is said of what somebody holds, and what is not, as a table."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpuadmin.common.cluster import Device, Holder, Node
from gpuadmin.common.hints import Hint, hints
from gpuadmin.common.idle import Idle

GIB = 1024**3
NOW = 100_000.0
MINE = Holder("minji", "train", NOW - 3600, 1, 20 * GIB)
OTHER = Holder("jiho", "", NOW - 3600, 1, GIB)
DEVICE = Device("gpu01", "GPU-1", "0", "H100", True, 0.2, 80 * GIB, 20 * GIB, 300, 50, (MINE,))
IDLE = Idle("minji", "gpu01", "GPU-1", "0", "H100", ("train",), NOW - 9999, 6, "tell")
LOADER = Hint("data-loader", "gpu01", "0", 0.2)


@pytest.mark.parametrize(
    ("device", "idle", "ratio", "cores", "said"),
    [
        (DEVICE, [], 0.2, 6, [LOADER]),
        (DEVICE, [], 0.2, 0.5, []),
        (DEVICE, [], 0.2, None, []),
        (DEVICE, [], None, 6, []),
        (DEVICE, [], 0.9, 6, []),
        (DEVICE, [], 0.0, 6, []),
        (replace(DEVICE, memory_used=1000), [], 0.2, 6, []),
        (replace(DEVICE, holders=(MINE, OTHER)), [], 0.2, 6, []),
        (replace(DEVICE, holders=None), [], 0.2, 6, []),
        (replace(DEVICE, holders=(OTHER,)), [IDLE], 0.2, 6, []),
        (replace(DEVICE, holders=(replace(MINE, since=NOW - 60),)), [], 0.2, 6, []),
        (replace(DEVICE, holders=(replace(MINE, since=None),)), [], 0.2, 6, []),
        (replace(DEVICE, holders=(replace(MINE, processes=None),)), [], 0.0, 6, []),
        (DEVICE, [IDLE], 0.2, 6, [Hint("idle", "gpu01", "0", 6)]),
        (DEVICE, [replace(IDLE, user="jiho")], 0.9, 6, []),
    ],
)
def test_hints(device: Device, idle: list[Idle], ratio: float | None, cores: float | None, said: list[Hint]) -> None:
    node = Node("gpu01", "up", None, 1, 1, 1.0, None, None, (device,))
    worked: Mapping[tuple[str, str], float] = {} if ratio is None else {("gpu01", "GPU-1"): ratio}
    assert hints("minji", [node], idle, worked, {} if cores is None else {"gpu01": cores}, NOW) == said

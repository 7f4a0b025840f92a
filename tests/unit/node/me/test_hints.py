"""What gpuadmin-me says of one's own GPUs, and of nobody else's."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.me import hints, overview

from gpuadmin.common.samples import Sample, of_text
from tests.support.me_overview import FOUND
from tests.support.metrics_cluster import node

NOW = 1_800_000_000.0
HELD = {0: ("minji", "train"), 1: ("junho", "secret-project")}
ONE: dict[str, Any] = {
    "index": "0", "name": "H100", "utilization": 0.1, "memory": 20e9, "containers": ["train"], "alone": True,
    "unused": None, "processors": 0.2,
}  # fmt: skip


def samples(*more: str) -> list[Sample]:
    text = "\n".join([*(line.rpartition(" ")[0] for line in node("x", NOW, held=HELD)), *more])
    return [Sample("up", {"instance": "", "job": "node"}, 1), *of_text(text, {"instance": ""})]


def test_mine_and_nobody_else_s() -> None:
    unused = [
        f'gpuadmin_gpu_unused_since_timestamp_seconds{{uuid="GPU-x-{index}",user="{user}"}} {NOW - 9000}'
        for index, (user, _) in HELD.items()
    ]
    (mine,) = hints.pick_own_gpus(samples(*unused), "minji", NOW)
    assert (mine["index"], mine["containers"], mine["unused"], mine["alone"]) == ("0", ["train"], 9000, True)
    assert "junho" not in repr(mine)
    assert "secret" not in repr(mine)
    assert hints.pick_own_gpus(samples(), "gildong", NOW) == []


def test_what_was_written_long_ago_says_nothing_of_now() -> None:
    assert hints.pick_own_gpus(samples(), "minji", NOW + 3600) == []


HINTS: dict[str, tuple[dict[str, Any], str | None]] = {
    "held and idle": ({"unused": 3 * 3600}, "held for 3 hours and not used once"),
    "idle for a while": ({"unused": 3600}, None),
    "waits for data": ({"processors": 0.95}, "seems to wait for your data loader"),
    "computes": ({"utilization": 0.9, "processors": 0.95}, None),
    "neither computes": ({"processors": 0.1}, None),
    "processors are not known": ({"processors": None}, None),
    "use is not known": ({"utilization": None, "processors": 0.95}, None),
    "shared: it may be the other's": ({"processors": 0.95, "alone": False}, None),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints(case: str) -> None:
    change, words = HINTS[case]
    found = hints.hints({**ONE, **change}, korean=False)
    assert len(found) == len(hints.hints({**ONE, **change}, korean=True)) == (words is not None)
    assert words is None or words in found[0]


def test_what_is_printed() -> None:
    found = {**FOUND, "held": [{**ONE, "unused": 3 * 3600}]}
    output = overview.lines(Subject(name="minji"), found, "node1", [], "en")
    assert "  GPU 0 H100 (train): 10% busy, 20.0 GB of memory" in output
    korean = "\n".join(overview.lines(Subject(name="minji"), found, "node1", [], "ko"))
    assert "GPU 0 H100 (train): 사용률 10%, 메모리 20.0 GB" in korean
    assert "3시간 동안 한 번도 사용되지 않았습니다" in korean
    away = overview.lines(Subject(name="minji"), {**FOUND, "held": "the collector has written nothing"}, "n", [], "en")
    assert not any("collector" in line for line in away)

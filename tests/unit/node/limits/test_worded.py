"""What an admin reads of limits: names and amounts as gpuadmin.yml has them."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.bounds import Bounds, Machine, drop_ins
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.worded import changes, listed, value

GIB = 1 << 30
NODE = Machine(64 * GIB, 8 * GIB, 100000, 16)
USUAL = Bounds("50%", "0", "4096", "unlimited", 100)


def test_what_changes_is_said_as_it_was_written() -> None:
    before = drop_ins(USUAL, {}, [0], NODE)
    more = Bounds("40G", "0", "unlimited", "8", 200)
    after = drop_ins(more, {20001: Bounds(memory="512M")}, [0], NODE)
    assert changes(before, after, lambda uid: f"person {uid}") == [
        "limits.memory: 32G -> 40G",
        "limits.tasks: 4096 -> unlimited",
        "limits.processors: unlimited -> 8",
        "limits.processor_weight: 100 -> 200",
        "limits of person 20001: memory: 32G -> 512M, tasks: 4096 -> unlimited, processors: unlimited -> 8, "
        "processor_weight: 100 -> 200",
        f"limits of jobs and sessions in {len(before) - 3} services: as for one person",
    ]
    assert changes(after, after, str) == []


def test_all_of_it_may_come_and_go() -> None:
    there = drop_ins(USUAL, {}, [0], NODE)
    came, went = changes({}, there, str), changes(there, {}, str)
    assert came[0] == "limits.memory: unlimited -> 32G"
    assert "limits of all people together: memory: unlimited -> 60.8G" in came
    assert "limits of 0: processor_weight: 100 -> 1000" in came
    assert went[:2] == ["limits.memory: 32G -> unlimited", "limits.swap: 0 -> unlimited"]
    head = {path: f"# by an earlier version\n{text}" for path, text in there.items()}
    assert changes(head, there, str)[0] == "limits: what systemd reads is written again"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("MemoryMax", "infinity", "unlimited"), ("MemoryMax", str(3 * GIB // 2), "1.5G"), ("MemorySwapMax", "0", "0"),
        ("MemoryMax", str(2048 * GIB), "2T"), ("TasksMax", "100", "100"), ("CPUQuota", "", "unlimited"),
        ("CPUQuota", "150%", "1.5"), ("CPUQuota", "by hand", "by hand"), ("CPUWeight", "[not set]", "100"),
        ("CPUQuotaPerSecUSec", "1.5s", "1.5"), ("CPUQuotaPerSecUSec", "infinity", "unlimited"),
    ],
)  # fmt: skip
def test_values(name: str, text: str, said: str) -> None:
    assert value(name, text) == said
    assert listed({"TasksMax": "100", name: text}).endswith(said)

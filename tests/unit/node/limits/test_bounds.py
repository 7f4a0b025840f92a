"""From limits and a machine to what systemd is told, as tables."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.bounds import (
    Bounds,
    Machine,
    as_kernel,
    drop_ins,
    properties,
)

GIB = 1 << 30
NODE = Machine(memory=64 * GIB, swap=8 * GIB, tasks=500_000, processors=32)
USUAL = Bounds("80%", "50%", "10%", "unlimited", 100)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (USUAL, {"MemoryMax": str(64 * GIB * 80 // 100 // 65536 * 65536), "MemorySwapMax": str(4 * GIB),
                 "TasksMax": "50000", "CPUQuota": "", "CPUWeight": "100"}),
        (Bounds(), {"MemoryMax": "infinity", "MemorySwapMax": "infinity", "TasksMax": "infinity", "CPUQuota": ""}),
        (Bounds(memory="8G", swap="0"), {"MemoryMax": str(8 * GIB), "MemorySwapMax": "0"}),
        (Bounds(processors="16"), {"CPUQuota": "1600%"}),
        (Bounds(processors="50%"), {"CPUQuota": "1600%"}),
        (Bounds(tasks="4096"), {"TasksMax": "4096"}),
    ],
)  # fmt: skip
def test_what_a_slice_is_told(bounds: Bounds, told: dict[str, str]) -> None:
    found = properties(bounds, NODE)
    assert {name: found[name] for name in told} == told


def test_a_share_of_a_small_machine_is_enough_to_log_in() -> None:
    found = properties(Bounds(memory="1%", tasks="1%"), Machine(GIB, 0, 4000, 2))
    assert (int(found["MemoryMax"]), int(found["TasksMax"])) == (128 << 20, 64)


def test_what_is_no_amount_is_an_error() -> None:
    with pytest.raises(NodeError, match="limits: 'lots' is not an amount"):
        properties(Bounds(memory="lots"), NODE)


@pytest.mark.parametrize(("memory", "kept"), [(GIB, 256 << 20), (64 * GIB, 64 * GIB // 20), (1024 * GIB, 8 * GIB)])
def test_what_all_people_together_do_not_get(memory: int, kept: int) -> None:
    assert abs(memory - Machine(memory, 0, 1, 1).for_people - kept) < 65536


@pytest.mark.holds("who looks after the node is not limited with the others")
def test_whose_slices_are_told() -> None:
    found = drop_ins(USUAL, {20001: Bounds(tasks="100")}, [0, 1000], NODE)
    assert found["user.slice.d/30-gpuadmin-limits.conf"].endswith(f"[Slice]\nMemoryMax={NODE.for_people}\n")
    assert "TasksMax=50000\n" in found["user-.slice.d/30-gpuadmin-limits.conf"]
    # a later name than everybody's; what is not said is as for everybody
    own = found["user-20001.slice.d/31-gpuadmin-limits.conf"]
    assert "TasksMax=100\n" in own
    assert f"MemorySwapMax={4 * GIB}\n" in own
    for uid in (0, 1000):
        free = found[f"user-{uid}.slice.d/31-gpuadmin-limits.conf"]
        assert "MemoryMax=infinity\n" in free
        assert "TasksMax=infinity\n" in free
        assert "CPUWeight=1000\n" in free


@pytest.mark.holds("jobs of cron and at take nothing of what all people leave")
@pytest.mark.parametrize("unit", ["cron.service", "crond.service", "atd.service", "cron-.service"])
def test_jobs_that_run_outside_of_slices_are_limited_and_end_alone(unit: str) -> None:
    text = drop_ins(USUAL, {}, [0], NODE)[f"{unit}.d/30-gpuadmin-limits.conf"]
    assert "[Service]\nMemoryMax=" in text
    assert "OOMPolicy=continue\n" in text
    assert "Slice=user.slice\n" in text


@pytest.mark.holds("nobody's jobs keep cron from starting others'")
@pytest.mark.parametrize("unit", ["cron.service", "atd.service", "cron-.service"])
def test_each_person_has_tasks_of_their_own_in_cron_s_service(unit: str) -> None:
    def tasks(usual: str, own: str) -> str:
        text = drop_ins(Bounds("8G", "50%", usual, "unlimited", 100), {20001: Bounds(tasks=own)}, [0], NODE)[
            f"{unit}.d/30-gpuadmin-limits.conf"
        ]
        return "".join(line for line in text.splitlines(keepends=True) if line.startswith(("LimitNPROC", "TasksMax")))

    assert tasks("100", "50") == f"TasksMax={NODE.tasks * 4 // 5}\nLimitNPROC=100\n"
    assert tasks("100", "unlimited") == "TasksMax=100\n"
    assert tasks("unlimited", "100") == "TasksMax=infinity\n"


@pytest.mark.holds("sessions that stay in sshd's service, without logind, do not take all memory")
@pytest.mark.parametrize(
    ("memory", "most"), [("8G", 8 * GIB), ("unlimited", NODE.for_people), ("100%", NODE.for_people)]
)
def test_sessions_without_logind_share_what_one_person_gets(memory: str, most: int) -> None:
    found = drop_ins(Bounds(memory, "50%", "10%", "unlimited", 100), {}, [0], NODE)
    for unit in ("ssh.service", "ssh@.service", "sshd.service"):
        text = found[f"{unit}.d/30-gpuadmin-limits.conf"]
        assert f"[Service]\nMemoryMax={most}\nMemorySwapMax={4 * GIB}\nOOMPolicy=continue\n" in text


@pytest.mark.holds("a fork bomb in sshd's service leaves the admin a way in")
def test_each_person_has_tasks_of_their_own_in_sshd_s_service() -> None:
    def of_sshd(usual: str, own: str) -> str:
        people = {20001: Bounds(tasks=own), 20002: Bounds(memory="1G")}
        found = drop_ins(Bounds("8G", "50%", usual, "unlimited", 100), people, [0], NODE)
        return found["ssh.service.d/30-gpuadmin-limits.conf"].partition("OOMPolicy=continue\n")[2]

    assert of_sshd("100", "50") == f"LimitNPROC=100\nTasksMax={NODE.tasks * 4 // 5}\n"
    assert "LimitNPROC=300\n" in of_sshd("100", "300"), "nobody gets less than they may"
    assert of_sshd("100", "unlimited") == of_sshd("unlimited", "100") == ""


@pytest.mark.parametrize(
    ("name", "shown", "kernel"),
    [
        ("MemoryMax", "infinity", "max"),
        ("MemoryMax", "1073741824", "1073741824"),
        ("TasksMax", "5000", "5000"),
        ("CPUWeight", "[not set]", "100"),
        ("CPUWeight", "1000", "1000"),
        ("CPUQuotaPerSecUSec", "infinity", "max"),
        ("CPUQuotaPerSecUSec", "500ms", "50000"),
        ("CPUQuotaPerSecUSec", "1min 4s", "6400000"),
    ],
)
def test_what_systemd_shows_and_what_the_kernel_has(name: str, shown: str, kernel: str) -> None:
    assert as_kernel(name, shown) == kernel

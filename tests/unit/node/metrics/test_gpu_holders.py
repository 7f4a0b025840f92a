"""Who holds which GPU, as a table: what the driver lists, what is open, and what follows."""

from collections.abc import Collection
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.devices import Key
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.gpu_holders import Labels, holdings, pids_of
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Process
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.record import Device

from gpuadmin.common.metrics import OTHERS, UNKNOWN

GPU0: Key = ("gpu", 0)
GPU1: Key = ("gpu", 1)
CAP: Key = ("cap", 12)


def process(pid: int, user: str = "alice", started: float = 5.0, container: str = "") -> Process:
    return Process(pid, started, 1001, user, container, "pid:[1]")


def gpu(minor: int = 0, processes: dict[int, int | None] | None = None, **other: Any) -> Device:
    whole = {"gi": None, "ci": None, "busy": True, "processes": processes, **other}
    return Device(uuid=whole.pop("uuid", f"GPU-{minor}"), minor=minor, **whole)


def mig(processes: dict[int, int | None] | None = None) -> Device:
    return gpu(1, processes, uuid="MIG-1", gi=7, ci=0, busy=None)


def found(
    devices: list[Device],
    held: dict[int, set[Key]],
    processes: list[Process],
    *,
    opened: bool = False,
    closed: Collection[int] = (),
) -> dict[tuple[str, str, str], tuple[int, int | None]]:
    result = holdings(
        devices,
        {pid: frozenset(keys) for pid, keys in held.items()},
        {one.pid: one for one in processes},
        caps=lambda device: CAP if device.gi == 7 else None,
        container=lambda one: one.container,
        has_open=lambda pid, _: pid not in closed,
        until=10.0,
        opened=opened,
    )
    return {key: (len(one.pids), one.memory) for key, one in result.items()}


@pytest.mark.parametrize(
    ("devices", "held", "processes", "expected"),
    [
        ([gpu(processes={7: 100})], {}, [process(7)], {("GPU-0", "alice", ""): (1, 100)}),
        # what asks the driver (nvtop, wandb) has all of them open, and holds none but the one that it uses
        ([gpu(processes={})], {7: {GPU0}}, [process(7)], {}),
        ([gpu(processes={}), gpu(1, {7: 5})], {7: {GPU0, GPU1}}, [process(7)], {("GPU-1", "alice", ""): (1, 5)}),
        # two people on one GPU, and two containers of one
        (
            [gpu(processes={7: 100, 8: 50, 9: 1})], {}, [process(7), process(8, "bob"), process(9, container="train")],
            {("GPU-0", "alice", ""): (1, 100), ("GPU-0", "bob", ""): (1, 50), ("GPU-0", "alice", "train"): (1, 1)},
        ),
        # memory that the driver does not say is not zero
        ([gpu(processes={7: 100, 8: None})], {}, [process(7), process(8)], {("GPU-0", "alice", ""): (2, None)}),
        # one that has ended, and one whose number is another's by now
        ([gpu(processes={7: 100})], {}, [], {("GPU-0", UNKNOWN, ""): (1, 100)}),
        ([gpu(processes={7: 100})], {}, [process(7, "bob", started=11.0)], {("GPU-0", UNKNOWN, ""): (1, 100)}),
        # a part of a GPU: by the driver's list, by what is open; the whole has it open as well
        ([gpu(1, {}), mig({7: 5})], {7: {GPU1, CAP}}, [process(7)], {("MIG-1", "alice", ""): (1, 5)}),
        ([gpu(1, {}), mig({7: 5})], {7: {GPU1}}, [process(7)], {("MIG-1", "alice", ""): (1, 5)}),
        ([gpu(1, {}), mig({})], {7: {GPU1, CAP}}, [process(7)], {}),
        # the driver says nothing of the processes of a part
        ([gpu(1, {}), mig(None)], {7: {GPU1, CAP}}, [process(7)], {("MIG-1", "alice", ""): (0, 0)}),
    ],
)  # fmt: skip
def test_who_holds_what(
    devices: list[Device],
    held: dict[int, set[Key]],
    processes: list[Process],
    expected: dict[tuple[str, str, str], tuple[int, int | None]],
) -> None:
    assert found(devices, held, processes) == expected


@pytest.mark.parametrize(
    ("devices", "held", "expected"),
    [
        ([gpu(processes={})], {7: {GPU0}}, {("GPU-0", "alice", ""): (0, 0)}),
        # who has it open and has ended
        ([gpu(processes={})], {8: {GPU0}}, {}),
        ([gpu(1, {}), mig({})], {7: {GPU1, CAP}}, {("MIG-1", "alice", ""): (0, 0)}),
        ([gpu(1, {}), mig({})], {7: {GPU1}}, {("GPU-1", "alice", ""): (0, 0)}),
    ],
)
def test_who_has_what_open(
    devices: list[Device], held: dict[int, set[Key]], expected: dict[tuple[str, str, str], tuple[int, int | None]]
) -> None:
    assert found(devices, held, [process(7)], opened=True) == expected


def test_without_an_answer_of_the_driver_what_is_open_is_held() -> None:
    devices = [gpu(processes=None, busy=None)]
    assert found(devices, {7: {GPU0}}, [process(7)]) == {("GPU-0", "alice", ""): (0, 0)}


@pytest.mark.holds("a process that the driver lists long after its end is not the one that has its number by now")
def test_a_number_that_is_listed_for_ever_is_not_its_next_owners() -> None:
    """The driver lists a killed process for as long as a child of it has its files open."""
    assert found([gpu(processes={7: 100})], {}, [process(7, "bob")], closed={7}) == {("GPU-0", UNKNOWN, ""): (1, 100)}


def test_the_first_process_says_since_when() -> None:
    one = holdings(
        [gpu(processes={7: 1, 8: 1})], {}, {7: process(7, started=5), 8: process(8, started=3)},
        caps=lambda _: None, container=lambda _: "", has_open=lambda *_: True, until=10.0,
    )["GPU-0", "alice", ""]  # fmt: skip
    assert one.since == 3


def test_all_processes_that_matter() -> None:
    assert pids_of([gpu(processes={7: 1}), gpu(1, None)], {9: frozenset()}) == {7, 9}


def test_so_many_containers_are_shown_within_an_hour() -> None:
    now = [0.0]
    labels = Labels(lambda: now[0])
    assert [labels.label("alice", f"c{number}") for number in range(40)].count(OTHERS) == 8
    assert labels.label("alice", "c0") == "c0"
    assert labels.label("alice", "") == ""
    assert labels.label("bob", "c39") == "c39"
    now[0] = 3601
    assert labels.label("alice", "c39") == "c39"

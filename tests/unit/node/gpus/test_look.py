"""What is seen of a node's GPUs, and what is judged of it."""

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import (
    Expected,
    Seen,
    Sick,
    Verdict,
    judge,
    look,
)

from tests.support.gpu_node import Node
from tests.support.seen_gpus import NONE, SILENT, TWO, WHOLE, device, gpu, seen, xid


@pytest.mark.needs("cc")
def test_a_node_that_is_whole(node: Node) -> None:
    node.whole()
    seen = look(node.places)
    assert [one.address for one in seen.devices] == [gpu["address"] for gpu in seen.gpus]
    assert (seen.problem, seen.missing, seen.xids, seen.unknown) == (None, [], [], {})
    assert seen.to_report()["nvml"] == seen.nvml


@pytest.mark.needs("cc")
def test_a_node_without_gpus_and_driver(node: Node) -> None:
    node.log.unlink()
    seen = look(node.places)
    assert (seen.devices, seen.nvml, seen.problem, seen.missing) == ([], None, None, [])
    assert seen.xids is None
    assert "cannot be read" in seen.unknown["xids"]


@pytest.mark.needs("cc")
def test_gpus_without_a_driver(node: Node) -> None:
    node.gpu("0000:01:00.0", None)
    seen = look(node.places)
    assert (seen.nvml, seen.problem) == (None, None)
    assert seen.missing[-1].startswith("libnvidia-ml.so.1 is not installed")


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("DRIVER_NOT_LOADED", "the driver is not loaded"),
        ("LIB_RM_VERSION_MISMATCH", "the libraries are of another version than the loaded module: reboot"),
        ("CORRUPTED_INFOROM", "CORRUPTED_INFOROM (nvmlInit_v2)"),
    ],
)
def test_a_driver_that_answers_nothing(node: Node, error: str, words: str) -> None:
    node.whole(("fault.nvmlInit", error))
    seen = look(node.places)
    assert (seen.nvml, seen.problem) == (None, words)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_a_driver_that_hangs(node: Node, call: str) -> None:
    node.whole((f"fault.{call}", "hang"))
    seen = look(node.places, seconds=0.5)
    assert seen.problem == "the GPU driver did not answer in 0.5 s"
    assert len(seen.devices) == 2


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("change", "gpu", "numbers"),
    [
        (("lost", "yes"), 0, (0,)), (("lost", "later"), 1, (1,)), (("lost", None), 0, ()),
        (("fault.nvmlDeviceGetHandleByIndex", "UNKNOWN"), None, (0, 1)),
        (("fault.nvmlDeviceGetHandleByIndex", "NO_PERMISSION"), None, ()), (("fault.nvmlInit", "UNKNOWN"), None, None),
    ],
)  # fmt: skip
@pytest.mark.holds("a GPU that may not be asked is not lost")
def test_gpus_that_do_not_answer(
    node: Node, change: tuple[str, str | None], gpu: int | None, numbers: tuple[int, ...] | None
) -> None:
    node.whole()
    every = look(node.places).answering
    assert every is not None
    node.describe(change, gpu=gpu)
    seen = look(node.places)
    found = judge(seen, Expected(2)).sick
    mute = [one for one in found if " does not answer: " in one.words and not one.passes]
    assert [one.words[:5] for one in mute] == [f"GPU {number}" for number in numbers or ()]
    assert (seen.answering is None) == (numbers is None)
    assert set(seen.answering or ()) <= set(every)
    assert not numbers or len(seen.answering or ()) < len(every)


@pytest.mark.needs("cc")
def test_a_library_that_is_none(node: Node) -> None:
    node.gpu("0000:01:00.0")
    node.file("usr/lib64/libnvidia-ml.so.1", "not an object file\n")
    assert "libnvidia-ml.so.1" in str(look(node.places).problem)


def test_a_gate_that_is_not_closed_is_worse() -> None:
    found = judge(seen(*TWO, gate=["ssh.service: /dev/nvidia1 can be opened, and is not granted"]), Expected(2))
    assert found.worse == ("ssh.service: /dev/nvidia1 can be opened, and is not granted",)
    assert found.broken == ()


@pytest.mark.parametrize("number", [None, 0])
def test_no_gpu_and_none_expected(number: int | None) -> None:
    assert judge(Seen([], NONE), Expected(number)) == Verdict(0, (), ())


@pytest.mark.parametrize("expected", [Expected(), Expected(2), Expected(2, "h100"), Expected(2, watts=700)])
def test_as_expected(expected: Expected) -> None:
    assert judge(seen(*TWO), expected) == Verdict(2, (), ())


@pytest.mark.parametrize(
    ("state", "expected", "words"),
    [
        (Seen([], NONE), Expected(8), "none of 8 expected GPUs answers: none is on the PCI bus"),
        (Seen([device(0, None)], NONE), Expected(1), "none of 1 expected GPU answers: the module nvidia is not loaded"),
        (
            Seen([device(0)], WHOLE, problem="the GPU driver did not answer in 20 s"),
            Expected(1),
            "none of 1 expected GPU answers: the GPU driver did not answer in 20 s",
        ),
        (
            Seen([device(0)], WHOLE, problem="the GPU driver did not answer in 20 s"),
            Expected(),
            "the driver is loaded and does not answer: the GPU driver did not answer in 20 s",
        ),
        (seen(gpu(0, problem="GPU_IS_LOST")), Expected(1), "none of 1 expected GPU answers: the bus has them"),
        (
            seen(*TWO, driver=replace(WHOLE, libraries="550.2")),
            Expected(2),
            "the loaded module is 550.1, the libraries are 550.2",
        ),
        (seen(gpu(0, ecc_uncorrected=3), gpu(1)), Expected(2), "GPU 0 (0000:00:00.0): 3 memory errors that ECC"),
        (seen(gpu(0, remapped_failed=1), gpu(1)), Expected(2), "GPU 0 (0000:00:00.0): a bad row of memory could not"),
        (
            seen(*TWO, xids=xid(48)),
            Expected(2),
            "GPU 1 (0000:01:00.0): Xid 48 (memory error that ECC could not correct)",
        ),
        (seen(*TWO, xids=xid(119)), Expected(), "GPU 1 (0000:01:00.0): Xid 119"),
    ],
)
def test_broken(state: Seen, expected: Expected, words: str) -> None:
    found = judge(state, expected)
    assert found.broken[0].startswith(words)


@pytest.mark.parametrize(
    ("state", "expected", "words"),
    [
        (seen(gpu(0)), Expected(2), "1 of 2 expected GPUs answer"),
        (seen(gpu(0), gpu(1, problem="GPU_IS_LOST")), Expected(2), "GPU 1 (0000:01:00.0) does not answer: GPU_IS_LOST"),
        (
            seen(gpu(0), gpu(1, problem="GPU_IS_LOST", address=None), devices=[device(0), device(1)]),
            Expected(2),
            "GPU 1 does not answer: GPU_IS_LOST (silent on the bus: 0000:01:00.0)",
        ),
        (seen(*TWO), Expected(1), "more GPUs answer than the inventory expects"),
        (seen(*TWO), Expected(0), "more GPUs answer"),
        (seen(gpu(0, pcie_width=8, pcie_width_max=16)), Expected(1), "GPU 0 (0000:00:00.0): PCIe has 8 of 16 lanes"),
        (seen(gpu(0, remapped_pending=1)), Expected(), "GPU 0 (0000:00:00.0): a bad row of memory is remapped at"),
        (seen(gpu(0)), Expected(1, "A100"), "GPU 0 (0000:00:00.0) is NVIDIA H100, expected is A100"),
        (
            seen(gpu(0) | {"power_limit": 700.0}),
            Expected(1, watts=500),
            "GPU 0 (0000:00:00.0) may draw 700 W, and gpus.power_cap is 500 W: systemctl restart gpuadmin-gpu-power",
        ),
        (seen(*TWO, xids=xid(79)), Expected(2), "GPU 1 (0000:01:00.0): Xid 79 (has fallen off the bus)"),
        (seen(gpu(0), devices=[device(0), device(5, None)]), Expected(), "0000:05:00.0 is on the bus, and the driver"),
        (Seen([device(0, None)], NONE), Expected(), "GPUs without a driver that answers (the inventory says nothing"),
        (Seen([device(0, None)], NONE), Expected(0), "GPUs without a driver that answers (none is expected)"),
    ],
)
def test_only_worse(state: Seen, expected: Expected, words: str) -> None:
    found = judge(state, expected)
    assert any(line.startswith(words) for line in found.worse), found
    assert found.broken == ()


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_errors_of_peoples_programs_are_no_reason(number: int) -> None:
    assert judge(seen(*TWO, xids=xid(number)), Expected(2)) == Verdict(2, (), ())


@pytest.mark.parametrize("other", [{"slowed": ["heat (hardware)"]}, {"ecc_uncorrected": None}, {"pcie_width": None}])
def test_what_people_cause_or_nobody_knows_is_no_reason(other: dict[str, Any]) -> None:
    assert judge(seen(gpu(0, **other)), Expected(1)) == Verdict(1, (), ())


@pytest.mark.parametrize(
    ("state", "expected", "sick"),
    [
        (seen(*TWO, xids=xid(48)), Expected(2), [("GPU 1 (0000:01:00.0): Xid 48", "1", False)]),
        (seen(*TWO, xids=xid(154)), Expected(2), [("GPU 1 (0000:01:00.0): Xid 154", "1", False)]),
        (seen(gpu(0, uuid="GPU-a", ecc_uncorrected=3)), Expected(), [("GPU 0 (0000:00:00.0): 3", "GPU-a", False)]),
        (seen(gpu(0, pcie_width=8, pcie_width_max=16)), Expected(), [("GPU 0 (0000:00:00.0): PCIe", "0", False)]),
        (seen(*TWO, driver=replace(WHOLE, libraries="550.2")), Expected(), [("the loaded module", "", False)]),
        (seen(gpu(0, recovery=1)), Expected(1), [("GPU 0 (0000:00:00.0): the driver asks for a reset", "0", False)]),
        (seen(gpu(0, recovery=9)), Expected(1), [("GPU 0 (0000:00:00.0): the driver asks for recov", "0", False)]),
        # the log has what is over; of another GPU, or one that does not say, it counts
        (seen(gpu(0), gpu(1, recovery=0), xids=xid(154)), Expected(2), []),
        (seen(gpu(0, recovery=0), gpu(1), xids=xid(154)), Expected(2), [("GPU 1 (0000:01:00.0): Xid", "1", False)]),
        (seen(gpu(0), gpu(1, recovery=0), xids=xid(48)), Expected(2), [("GPU 1 (0000:01:00.0): Xid", "1", False)]),
        # a driver that is silent, or not there yet, comes back: nobody has to say that it was mended
        (SILENT, Expected(), [("the driver is loaded and does not", "", True)]),
        (Seen([], NONE), Expected(8), [("none of 8 expected GPUs answers", "", True)]),
        (replace(SILENT, xids=xid(119)), Expected(), [("the driver is", "", True), ("0000:01:00.0: Xid", "", False)]),
        # less than expected, and usable
        (seen(gpu(0)), Expected(2), []),
        (seen(gpu(0, remapped_pending=1)), Expected(1), []),
        (seen(*TWO, xids=xid(94)), Expected(2), []),
        (seen(*TWO, gate=["ssh.service: open"]), Expected(2), []),
        (seen(gpu(0)), Expected(1, "A100"), []),
    ],
)
def test_what_keeps_further_work_away(state: Seen, expected: Expected, sick: list[tuple[str, str, bool]]) -> None:
    found = judge(state, expected).sick
    assert [(one.gpu, one.passes) for one in found] == [(gpu, passes) for _, gpu, passes in sick]
    assert all(one.words.startswith(words) for one, (words, _, _) in zip(found, sick, strict=True)), found
    assert all(isinstance(one, Sick) for one in found)

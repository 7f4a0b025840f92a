"""One look at a whole node: bus, driver, NVML and the kernel's log together."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import look

from tests.support.gpu_node import Node

pytestmark = pytest.mark.needs("cc")


def test_a_node_that_is_whole(node: Node) -> None:
    node.whole()
    seen = look(node.places)
    assert [one.address for one in seen.devices] == [gpu["address"] for gpu in seen.gpus]
    assert (seen.problem, seen.missing, seen.xids, seen.unknown) == (None, [], [], {})
    assert seen.to_report()["nvml"] == seen.nvml


def test_a_node_without_gpus_and_driver(node: Node) -> None:
    node.log.unlink()
    seen = look(node.places)
    assert (seen.devices, seen.nvml, seen.problem, seen.missing) == ([], None, None, [])
    assert seen.xids is None
    assert "cannot be read" in seen.unknown["xids"]


def test_gpus_without_a_driver(node: Node) -> None:
    node.gpu("0000:01:00.0", None)
    seen = look(node.places)
    assert (seen.nvml, seen.problem) == (None, None)
    assert seen.missing[-1].startswith("libnvidia-ml.so.1 is not installed")


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


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_a_driver_that_hangs(node: Node, call: str) -> None:
    node.whole((f"fault.{call}", "hang"))
    seen = look(node.places, seconds=0.5)
    assert seen.problem == "the GPU driver did not answer in 0.5 s"
    assert len(seen.devices) == 2


def test_a_library_that_is_none(node: Node) -> None:
    node.gpu("0000:01:00.0")
    node.file("usr/lib64/libnvidia-ml.so.1", "not an object file\n")
    assert "libnvidia-ml.so.1" in str(look(node.places).problem)

"""What NVML says, read from the fake: every value, what is missing, what fails."""

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import nvml
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.isolated_call import isolated_call

from tests.support import fake_nvml
from tests.support.gpu_node import Node

pytestmark = pytest.mark.needs("cc")


def read(node: Node, *changes: tuple[str, str | None], gpu: int | None = None) -> Mapping[str, Any]:
    node.describe(*changes, gpu=gpu)
    return isolated_call(lambda: nvml.read(str(fake_nvml.library())), seconds=20, lock=node.places.lock)


def test_all_that_two_gpus_say(node: Node) -> None:
    found = read(node)
    first, second = found["gpus"]
    assert (found["driver"], found["nvml"], found["cuda"]) == ("550.163.01", "12.550.163.01", "12.4")
    assert first == {
        "index": 0, "problem": None, "unknown": {}, "lacks": [], "mig_devices": [],
        "uuid": "GPU-11111111-2222-3333-4444-555555555555", "serial": "1650522000001", "minor": 0,
        "name": "NVIDIA H100 80GB HBM3", "address": "0000:01:00.0", "memory": 85520809984, "memory_used": 4294967296,
        "pcie_width": 16, "pcie_width_max": 16, "pcie_generation": 1, "pcie_generation_max": 5,
        "mig": False, "mig_pending": False, "ecc": True, "ecc_pending": True, "ecc_corrected": 2,
        "ecc_uncorrected": 0, "ecc_uncorrected_ever": 0, "remapped_corrected": 0, "remapped_uncorrected": 0,
        "remapped_pending": 0, "remapped_failed": 0, "recovery": 0, "utilization": 37,
        "utilization_memory": 12, "temperature": 41, "power": 121.5, "power_limit": 700.0, "slowed": [],
        "persistence": True,
        "clocks": {"graphics": 1980, "sm": 1980, "memory": 2619, "video": 1545},
        "processes": [{"pid": 4242, "kind": "compute", "memory": 4294967296, "gpu_instance": None}],
    }  # fmt: skip
    assert (second["mig"], second["utilization"]) == (True, None)
    assert {"utilization", "power", "serial"} - set(second["lacks"]) == {"serial"}
    (mig,) = second["mig_devices"]
    assert (mig["uuid"], mig["gpu_instance"]) == ("MIG-aaaaaaaa-1111-2222-3333-444444444444", 7)
    assert (mig["memory_used"], mig["compute_instance"]) == (1073741824, 0)
    assert [one["pid"] for one in mig["processes"]] == [4343]
    assert [(one["pid"], one["gpu_instance"]) for one in second["processes"]] == [(4343, 7)]


def profiles(node: Node, *changes: tuple[str, str | None], gpu: int | None = None) -> list[Any]:
    node.describe(*changes, gpu=gpu)
    library = str(fake_nvml.library())
    found = isolated_call(lambda: nvml.read_with_profiles(library), seconds=20, lock=node.places.lock)
    return [one.get("mig_profiles") for one in found["gpus"]]


def test_profiles_of_mig(node: Node) -> None:
    first, second = profiles(node)
    assert first is None, "while MIG is off the driver does not say"
    assert [one["name"] for one in second] == [
        "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me", "1g.20gb",
    ]  # fmt: skip
    assert second[2] == {"id": 9, "name": "3g.40gb", "most": 2, "starts": [0, 4], "size": 4}


@pytest.mark.parametrize("error", ["FUNCTION_NOT_FOUND", "NO_PERMISSION"])
@pytest.mark.parametrize("call", ["ProfileInfo", "PossiblePlacements"])
def test_profiles_that_nobody_says_are_unknown(node: Node, call: str, error: str) -> None:
    assert profiles(node, (f"fault.nvmlDeviceGetGpuInstance{call}", error)) == [None, None]


def test_a_gpu_without_mig_has_no_profiles(node: Node) -> None:
    assert profiles(node, ("mig", None), gpu=1) == [None, None]


@pytest.mark.parametrize("lost", ["yes", "later"])
def test_a_lost_gpu_leaves_the_others(node: Node, lost: str) -> None:
    first, second = read(node, ("lost", lost), gpu=0)["gpus"]
    assert (first["problem"], second["problem"]) == ("GPU_IS_LOST", None)
    assert second["uuid"].startswith("GPU-6666")


def test_one_value_that_fails_leaves_the_others(node: Node) -> None:
    first, _ = read(node, ("fault.nvmlDeviceGetTemperature", "UNKNOWN"), gpu=0)["gpus"]
    assert (first["temperature"], first["unknown"]) == (None, {"temperature": "ERROR_999"})
    assert (first["problem"], first["utilization"]) == (None, 37)


def test_processes_that_cannot_be_read_are_unknown(node: Node) -> None:
    first, _ = read(node, ("fault.nvmlDeviceGetComputeRunningProcesses", "NO_PERMISSION"), gpu=0)["gpus"]
    assert (first["processes"], first["unknown"]) == ([], {"processes": "NO_PERMISSION"})
    assert read(node, ("driver", "535.54.03"))["gpus"][0]["unknown"] == {"processes": "driver 535.54.03 mixes them up"}


@pytest.mark.parametrize(
    ("driver", "wrong"),
    [("535.43.02", True), ("535.85.99", True), ("535.86.05", False), ("550.54", False), (None, False)],
)
def test_drivers_whose_processes_are_scrambled(driver: str | None, wrong: bool) -> None:
    assert nvml.scrambled(driver) == wrong


@pytest.mark.parametrize("error", ["DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH"])
def test_a_driver_that_answers_nothing(node: Node, error: str) -> None:
    with pytest.raises(NodeError, match=rf"^{error} \(nvmlInit_v2\)$"):
        read(node, ("fault.nvmlInit", error))


def test_what_slows_a_gpu_down(node: Node) -> None:
    first, _ = read(node, ("reasons", "0xc5"), gpu=0)["gpus"]
    assert first["slowed"] == ["power cap", "heat (hardware)", "power brake"]


@pytest.mark.parametrize(("recovery", "known"), [("1", 1), ("4", 4), (None, None)])
def test_what_a_driver_asks_for(node: Node, recovery: str | None, known: int | None) -> None:
    first, _ = read(node, ("recovery", recovery), gpu=0)["gpus"]
    assert (first["recovery"], "recovery" in first["lacks"]) == (known, known is None)


def test_a_name_is_data(node: Node) -> None:
    assert read(node, ("name", "H100 \x1b[31mred"), gpu=0)["gpus"][0]["name"] == "H100 ?[31mred"


def test_memory_of_an_older_library(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    old = nvml.Library(str(fake_nvml.library()))
    call = old.call

    def without(name: str, *arguments: object) -> None:
        call("nvmlNoSuchCall" if name == "nvmlDeviceGetMemoryInfo_v2" else name, *arguments)

    node.describe()
    monkeypatch.setattr(old, "call", without)
    old.call("nvmlInit_v2")
    handle = old.handle("nvmlDeviceGetHandleByIndex_v2", 0)
    assert old.memory(handle) == (85520809984, 4294967296 + 500170752)


def test_nvidias_own_python_binding_works_on_the_fake(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake has the structures and versions of the real library, not those that our reader expects."""
    import pynvml

    node.describe()
    monkeypatch.setattr(pynvml, "nvmlLib", pynvml.CDLL(str(fake_nvml.library())))
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    assert pynvml.nvmlDeviceGetPciInfo(first).busId == "00000000:01:00.0"
    assert pynvml.nvmlDeviceGetMemoryInfo(first, version=pynvml.nvmlMemory_v2).reserved == 500170752
    assert pynvml.nvmlDeviceGetTemperature(first, pynvml.NVML_TEMPERATURE_GPU) == 41
    (field,) = pynvml.nvmlDeviceGetFieldValues(first, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    assert (field.nvmlReturn, field.value.uiVal) == (0, 0)
    assert pynvml.nvmlDeviceGetMigMode(second) == [1, 1]
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(second, 0)
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(mig)
    assert (process.pid, process.usedGpuMemory, process.gpuInstanceId) == (4343, 1073741824, 7)
    node.describe(("lost", "later"), gpu=0)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(first)
    pynvml.nvmlShutdown()

"""How busy MIG devices are: known between two samples of a GPU that has GPM, and nowhere else."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import nvml
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gpm import Gpm
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.isolated_call import isolated_call

from tests.support import fake_nvml
from tests.support.gpu_node import Node

pytestmark = pytest.mark.needs("cc")
PART = "[mig]\nname = MIG 1g.10gb\nuuid = MIG-b\ngpu_instance = {0}\ncompute_instance = 1\n"


def looks(node: Node, *texts: str) -> list[list[float | None]]:
    """What each look says of the MIG devices, one look after the other in one process."""

    def asked() -> dict[str, list[list[float | None]]]:
        node.description.write_text(texts[0])
        library = nvml.opened(str(fake_nvml.library()))
        gpm, found = Gpm(library), []
        for text in texts:
            node.description.write_text(text)
            one = gpm.measured(nvml.read_from(library))
            found.append([part["utilization"] for gpu in one["gpus"] for part in gpu["mig_devices"]])
        return {"looks": found}

    found: list[list[float | None]] = isolated_call(asked, seconds=20, lock=node.places.lock)["looks"]
    return found


def described(value: str) -> str:
    return fake_nvml.described(("gpm", "1"), gpu=1).replace("gpu_instance = 7", f"gpu_instance = 7\ngpm = {value}")


def test_a_mig_device_is_as_busy_as_between_two_looks(node: Node) -> None:
    assert looks(node, described("10"), described("42.5"), described("0")) == [[None], [42.5], [0.0]]


def test_a_gpu_without_gpm_does_not_say(node: Node) -> None:
    text = described("50").replace("gpm = 1\n", "")
    assert looks(node, text, text) == [[None], [None]]


def test_devices_of_one_instance_are_not_told_apart(node: Node) -> None:
    text = described("50")
    assert looks(node, text + PART.format(7), text + PART.format(7)) == [[None, None]] * 2
    assert looks(node, text + PART.format(8), text + PART.format(8))[1][0] == 50.0


def test_an_instance_that_was_gone_begins_anew(node: Node) -> None:
    text = described("50")
    assert looks(node, text, text.partition("[mig]")[0], text, text) == [[None], [], [None], [50.0]]


@pytest.mark.parametrize("value", ["-1", "101", "nan", "inf"])
@pytest.mark.holds("a measurement that cannot be is none")
def test_what_cannot_be_is_not_known(node: Node, value: str) -> None:
    assert looks(node, described(value), described(value)) == [[None], [None]]


@pytest.mark.parametrize("call", ["QueryDeviceSupport", "SampleAlloc", "MigSampleGet", "MetricsGet", "SampleFree"])
def test_a_library_without_a_call(node: Node, call: str) -> None:
    text = f"fault.nvmlGpm{call} = FUNCTION_NOT_FOUND\n" + described("50")
    assert looks(node, text, text) == [[None], [50.0 if call == "SampleFree" else None]]

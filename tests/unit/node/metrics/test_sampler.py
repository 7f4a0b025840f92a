"""The sampler against the fake driver: what it writes, and that it writes nothing of what did not answer."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import sampler as package
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import RECORD
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.sampler import TEXT, Places, Sampler

from tests.support import fake_nvml
from tests.support.gpu_node import Node
from tests.support.metrics_text import values

pytestmark = pytest.mark.needs("cc")
FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
MIG = "MIG-aaaaaaaa-1111-2222-3333-444444444444"


class Made:
    """A sampler of a node, with its files."""

    def __init__(self, node: Node, at: Path, seconds: float = 20.0, expected: int | None = 2) -> None:
        at.mkdir()
        self.at, self.node, self.now = at, node, 0.0
        self.sampler = Sampler(
            Places(str(at), str(node.root), str(node.bus), seconds=seconds), expected, clock=lambda: self.now
        )

    def sample(self, seconds: float = 10.0) -> str | None:
        self.now += seconds
        return self.sampler.sample()

    @property
    def values(self) -> dict[str, float]:
        return values((self.at / TEXT).read_text())


@pytest.fixture
def made(node: Node, tmp_path: Path) -> Iterator[Made]:
    found = Made(node, tmp_path / "written")
    yield found
    found.sampler.close()


def test_what_two_gpus_say(made: Made) -> None:
    made.node.whole()
    assert made.sample() is None
    found = made.values
    assert found[f'gpuadmin_gpu_utilization_ratio{{uuid="{FIRST}"}}'] == 0.37
    assert f'gpuadmin_gpu_utilization_ratio{{uuid="{SECOND}"}}' not in found, "nobody measures it of a divided one"
    assert found[f'gpuadmin_gpu_power_watts{{uuid="{FIRST}"}}'] == 121.5
    assert found[f'gpuadmin_gpu_clock_hertz{{uuid="{FIRST}",clock="sm"}}'] == 1980e6
    assert found[f'gpuadmin_gpu_ecc_errors_total{{uuid="{FIRST}",type="corrected"}}'] == 2
    assert found[f'gpuadmin_gpu_throttled{{uuid="{FIRST}",reason="heat_hardware"}}'] == 0
    assert found[f'gpuadmin_mig_memory_used_bytes{{uuid="{MIG}"}}'] == 1 << 30
    assert (found["gpuadmin_gpus_expected"], found["gpuadmin_gpus_answering"]) == (2, 2)
    assert found['gpuadmin_gpu_driver_state{state="ok"}'] == 1
    assert sum(value for name, value in found.items() if "driver_state" in name) == 1
    assert abs(found['gpuadmin_collector_sample_timestamp_seconds{source="nvml"}'] - time.time()) < 60
    first, second, mig = json.loads((made.at / RECORD).read_text())["devices"]
    assert (first["uuid"], first["busy"], first["processes"]) == (FIRST, True, [[4242, 4 << 30]])
    assert (second["uuid"], second["busy"], second["processes"]) == (SECOND, None, [])
    assert (mig["uuid"], mig["minor"], mig["gi"], mig["busy"], mig["processes"]) == (MIG, 1, 7, None, [[4343, 1 << 30]])


def test_a_mig_device_of_a_gpu_that_has_gpm(made: Made) -> None:
    made.node.whole()
    text = fake_nvml.described(("gpm", "1"), gpu=1).replace("gpu_instance = 7", "gpu_instance = 7\ngpm = 42")
    made.node.description.write_text(text)
    name = f'gpuadmin_mig_utilization_ratio{{uuid="{MIG}"}}'
    made.sample()
    assert name not in made.values, "one sample alone says nothing"
    made.sample()
    assert made.values[name] == 0.42
    mig = json.loads((made.at / RECORD).read_text())["devices"][2]
    assert mig["busy"] is None, "idle ends nothing by what no hardware has tried"


def test_processes_that_the_driver_mixes_up_are_unknown(made: Made) -> None:
    made.node.whole(("driver", "535.54.03"))
    made.sample()
    assert [one["processes"] for one in json.loads((made.at / RECORD).read_text())["devices"]] == [None, [], None]


def test_a_lost_gpu_leaves_the_others(made: Made) -> None:
    made.node.whole(("lost", "later"), gpu=0)
    made.sample()
    found = made.values
    assert found['gpuadmin_gpu_silent{index="0",problem="GPU_IS_LOST"}'] == 1
    assert found["gpuadmin_gpus_answering"] == 1
    assert not any(FIRST in name for name in found)


@pytest.mark.parametrize(
    ("have", "state"),
    [((), "none"), (("gpu",), "missing"), (("gpu", "module"), "missing"), (("gpu", "library"), "missing")],
)
def test_a_node_without_gpu_or_driver_says_so(made: Made, have: tuple[str, ...], state: str) -> None:
    for one in have:
        made.node.gpu("0000:01:00.0") if one == "gpu" else getattr(made.node, one)()
    made.sample()
    assert made.values[f'gpuadmin_gpu_driver_state{{state="{state}"}}'] == 1
    assert made.values["gpuadmin_gpus_answering"] == 0
    assert not (made.at / RECORD).exists()


def test_a_driver_that_answers_with_an_error_is_broken_and_asked_again(made: Made) -> None:
    made.node.whole(("fault.nvmlInit", "LIB_RM_VERSION_MISMATCH"))
    assert "LIB_RM_VERSION_MISMATCH" in str(made.sample())
    assert made.values['gpuadmin_gpu_driver_state{state="broken"}'] == 1
    assert made.values['gpuadmin_collector_success{source="nvml"}'] == 0
    made.node.describe()
    assert made.sample() is None
    assert made.values['gpuadmin_gpu_driver_state{state="ok"}'] == 1


def test_a_driver_that_hangs_takes_its_series_away(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.node.whole()
    made.sample()
    made.node.describe(("fault.nvmlDeviceGetTemperature", "hang"), gpu=0)
    with monkeypatch.context() as hasty:
        hasty.setattr(made.sampler._resident, "_seconds", 1.0)
        assert "did not answer in 1 s" in str(made.sample())
    found = made.values
    assert not any("gpu_utilization" in name or "gpu_info" in name for name in found), "nothing is repeated"
    assert found['gpuadmin_collector_success{source="nvml"}'] == 0
    assert 'gpuadmin_collector_sample_timestamp_seconds{source="nvml"}' not in found
    assert found['gpuadmin_gpu_driver_state{state="broken"}'] == 1
    assert not (made.at / RECORD).exists()
    made.node.describe()
    assert made.sample() is None
    assert made.values[f'gpuadmin_gpu_utilization_ratio{{uuid="{FIRST}"}}'] == 0.37


def test_one_process_is_kept_and_asked_again(made: Made) -> None:
    made.node.whole()
    made.sample()
    children = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False).stdout
    made.sample()
    made.sample()
    again = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False).stdout
    assert set(children.split()) & set(again.split()), "the same process answered"


def test_a_process_that_died_is_replaced(made: Made) -> None:
    made.node.whole()
    made.sample()
    assert made.sampler._resident is not None
    assert made.sampler._resident._child is not None
    os.kill(made.sampler._resident._child, signal.SIGKILL)
    assert "without an answer" in str(made.sample())
    assert made.sample() is None


def test_at_its_end_nothing_stays(made: Made) -> None:
    made.node.whole()
    made.sample()
    made.sampler.close()
    assert [path.name for path in made.at.iterdir()] == ["lock"]


def test_the_bus_is_looked_at_once_a_minute(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = package.pci.devices
    monkeypatch.setattr(package.pci, "devices", lambda *given: looks.append(1) or real(*given))
    for _ in range(7):
        made.sample(10)
    assert len(looks) == 2


@pytest.mark.needs("promtool")
def test_prometheus_has_no_complaint(made: Made) -> None:
    made.node.whole()
    made.sample()
    promtool = shutil.which("promtool")
    assert promtool is not None
    text = (made.at / TEXT).read_text()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")

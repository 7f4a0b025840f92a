"""GPUs for a diagnosis: whose processes hold them, and the names that containers know them by."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import gpus
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject

from tests.support.broken_host import Broken, one

pytestmark = pytest.mark.root


@pytest.fixture
def broken() -> Iterator[Broken]:
    with tempfile.TemporaryDirectory(prefix="gg") as name, one(Path(name)) as found:
        yield found


def subject(broken: Broken) -> Subject:
    return Subject(name="minji", uid=20000, docker="/local/.docker", root=str(broken.root))


def look(subject: Subject) -> dict[str, Any]:
    found = gpus.gpus(subject)
    assert found is not None
    return found


def test_what_is_closed_to_somebody_is_not_broken_to_them(broken: Broken) -> None:
    """The driver does not show them GPUs that they may not open; to root these are missing."""
    broken.gpus()
    (broken.root / "run/user/0").mkdir(parents=True)
    expecting = replace(subject(broken), gpus=9)
    (broken.root / "var/lib/gpuadmin").mkdir(parents=True, exist_ok=True)
    (broken.root / "var/lib/gpuadmin/gpu-gate.json").write_text(json.dumps({"access": "granted"}))
    for own in (False, True):
        found = look(replace(expecting, own=own))
        assert bool(found["worse"]) is not own


def test_whose_processes_hold_a_gpu(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.gpus()
    broken.edit("nvml", "[process]\npid = 4242\n", "[process]\npid = 4243\nmemory = 1\n[process]\npid = 4242\n")
    broken.process(4242, 20000)
    broken.process(4243, 20001)
    monkeypatch.setattr(gpus, "find_name", {20000: "minji", 20001: "jiho"}.get)
    found = look(subject(broken))
    assert {who for gpu in found["gpus"] for who in gpu["holders"]} == {"minji", "jiho"}
    # who asks for themselves hears no name but their own
    (broken.root / "run/user/0").mkdir()
    found = look(replace(subject(broken), own=True))
    assert {who for gpu in found["gpus"] for who in gpu["holders"]} == {"minji", "others"}
    assert "jiho" not in json.dumps(found)


def test_a_node_without_gpus(broken: Broken) -> None:
    assert gpus.gpus(subject(broken)) is None
    assert gpus.gpus(replace(subject(broken), node=False)) is None
    found = look(replace(subject(broken), gpus=8))
    assert "none of 8 expected GPUs answers" in found["broken"][0]


def test_a_gpu_that_nobody_is_to_use_is_not_missed(broken: Broken) -> None:
    broken.gpu(driver="nouveau")
    found = look(replace(subject(broken), gpus=0))
    assert (found["missing"], found["problem"]) == ([], None)
    broken.gpu("0000:41:00.0", driver="vfio-pci")
    found = look(subject(broken))
    assert not any("virtual machine" in words for words in found["missing"])


def test_names_for_containers(broken: Broken) -> None:
    broken.gpus()
    found = look(subject(broken))
    worse = found["worse"]
    assert (found["containers"], found["lost"]) == ([], [])
    broken.edit("run/cdi/nvidia.yaml", '"name": "0"', '"name": "7"')
    found = look(subject(broken))
    assert "containers cannot ask for nvidia.com/gpu=0" in found["containers"][0]
    assert (found["worse"], found["lost"]) == (worse, [])  # each is said once

"""Who was granted what, as a person reads it on the node."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import granted as module
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.granted import granted
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant


def test_what_is_granted(tmp_path: Path) -> None:
    subject = Subject(name="minji", uid=20000, root=str(tmp_path), state_directory="/state")
    assert granted(subject) is None, "open to everybody"
    settings = {"access": "granted", "gpus": {"GPU-a": ["/dev/nvidia0"], "GPU-b": ["/dev/nvidia1"]}}
    (tmp_path / "var/lib/gpuadmin").mkdir(parents=True)
    (tmp_path / "var/lib/gpuadmin/gpu-gate.json").write_text(json.dumps(settings))
    (tmp_path / "state").mkdir()
    until = int(time.time()) + 60
    for one in (
        Grant("a1", "jiho", 20001, ["GPU-b", "GPU-gone"], until - 100, until, "root@nas", "a course"),
        Grant("b2", "minji", 20000, ["GPU-a"], until - 100, until - 61, "root@nas"),
    ):
        grants.write(one, str(tmp_path / "state"))
    found = granted(subject)
    assert found == {
        "gpus": 2,
        "grants": [
            {"user": "jiho", "until": until, "who": "root@nas", "reason": "a course", "gpus": ["1", "GPU-gone"]},
        ],
    }


def test_a_part_of_a_gpu_is_no_gpu_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"GPU-a": ["/dev/nvidia0"], "GPU-b": ["/dev/nvidia1"], "MIG-1": ["/dev/nvidia1"]}
    hers = Grant("a1", "minji", 20000, ["MIG-1"], 1, 2**40, "root@nas")
    monkeypatch.setattr(module, "gpus", lambda *_: there)
    monkeypatch.setattr(module, "in_force", lambda *_: (None, [hers]))
    found = granted(Subject(name="minji", uid=20000, root=str(tmp_path)))
    assert found is not None
    assert (found["gpus"], found["grants"][0]["gpus"]) == (2, ["MIG-1"])

"""Each part by itself: what hangs, dies, takes memory or meets a full disk is unknown; grants as people read them."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import MEMORY
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import granted as module
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.collect import collect, parts
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.granted import granted
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant


def full(_: Subject) -> object:
    raise OSError(errno.ENOSPC, "No space left on device", "/x")


@pytest.mark.holds("the memory of a part has a bound")
def test_every_part_by_itself() -> None:
    begun = time.monotonic()
    found = collect(
        Subject(),
        seconds=3,
        chosen={
            "good": lambda _: {"a": 1},
            "hangs": lambda _: time.sleep(60),  # longer than its part may take
            "dies": lambda _: os.kill(os.getpid(), signal.SIGKILL),
            "grows": lambda _: len(b"x" * (2 * MEMORY)),  # the parent's own pages that it gives back are free to it
            "full": full,
        },
    )
    assert time.monotonic() - begun < 40
    assert found["good"] == {"a": 1}
    assert set(found["unknown"]) == {"hangs", "dies", "grows", "full"}
    assert found["late"] == ["hangs"]
    assert found["unknown"]["full"] == "/x: No space left on device"


def test_a_part_prints_nothing_where_the_module_answers(capfd: pytest.CaptureFixture[str]) -> None:
    collect(Subject(), seconds=5, chosen={"loud": lambda _: os.write(1, b"loud")})
    assert capfd.readouterr().out == ""


def test_a_storage_host_is_asked_for_the_home_and_not_for_sessions() -> None:
    assert {"account", "home"} <= set(parts(Subject(name="minji", node=False)))
    assert not {"sessions", "docker", "gpus"} & set(parts(Subject(name="minji", node=False)))
    assert "account" not in parts(Subject())


def test_what_this_machine_says_of_itself(tmp_path: Path) -> None:
    found = collect(Subject(homes=str(tmp_path), node=False), seconds=10)
    assert found["homes"]["bytes"] > 0
    assert found["memory"]["total"] > 0
    assert found["reboot"]["uptime"] > 0


@pytest.mark.root
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

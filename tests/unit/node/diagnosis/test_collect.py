"""Each part by itself: what hangs, dies, takes memory or meets a full disk is unknown, and the others are answered."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import MEMORY
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.collect import collect, parts
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject


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

"""Where tests may stop the work: only where a lab's guest is armed."""

import signal
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import faults


@pytest.fixture(autouse=True)
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_announce", lambda text: None)


def test_what_is_held_goes_on_when_it_is_disarmed(tmp_path: Path) -> None:
    lab, fault = tmp_path / "seed", tmp_path / "fault"
    lab.touch()
    fault.write_text("fetch:middle hold\n")
    begin = time.monotonic()
    timer = threading.Timer(0.3, fault.unlink)
    timer.start()
    faults.at("fetch:before", lab=str(lab), fault=str(fault))
    assert fault.exists(), "another point holds nothing"
    faults.at("fetch:middle", lab=str(lab), fault=str(fault))
    assert not fault.exists()
    assert time.monotonic() - begin >= 0.3


def test_a_machine_that_is_no_guest_of_a_lab_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(faults.os, "kill", lambda pid, number: killed.append(number))
    fault = tmp_path / "fault"
    fault.write_text("fetch:middle kill\n")
    faults.at("fetch:middle", lab=str(tmp_path / "seed"), fault=str(fault))
    assert killed == []
    (tmp_path / "seed").touch()
    faults.at("fetch:middle", lab=str(tmp_path / "seed"), fault=str(fault))
    assert killed == [signal.SIGKILL], "in a lab it does"

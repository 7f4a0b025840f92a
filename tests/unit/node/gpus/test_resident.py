"""A process that is asked again and again: whoever asks goes on, and no second one is started beside one that hangs."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.isolated_call import HungError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.resident import Resident

from tests.support.storage import Storage

Make = Callable[..., Resident]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Resident] = []

    def resident(open: Callable[[], Callable[[], Mapping[str, Any]]], seconds: float = 60) -> Resident:
        made.append(Resident(open, seconds=seconds, lock=str(tmp_path / "run/lock")))
        return made[-1]

    yield resident
    for one in made:
        one.end()


def test_one_process_answers_all(make: Make) -> None:
    def open() -> Callable[[], Mapping[str, Any]]:
        count: list[int] = []
        return lambda: count.append(1) or {"pid": os.getpid(), "count": len(count)}

    one = make(open)
    first, second = one.ask(), one.ask()
    assert first == {"pid": second["pid"], "count": 1}
    assert second["count"] == 2
    assert first["pid"] != os.getpid()
    one.end()
    with pytest.raises(ProcessLookupError):
        os.kill(first["pid"], 0)
    assert one.ask()["count"] == 1


def test_an_error_is_told_and_it_is_opened_again(make: Make, tmp_path: Path) -> None:
    def open() -> Callable[[], Mapping[str, Any]]:
        if not (tmp_path / "driver").exists():
            raise NodeError("no driver")
        return lambda: {"well": True}

    one = make(open)
    with pytest.raises(NodeError, match=r"^no driver$"):
        one.ask()
    (tmp_path / "driver").touch()
    assert one.ask() == {"well": True}


def test_one_that_hangs_is_ended(make: Make) -> None:
    one = make(lambda: lambda: time.sleep(60) or {}, 0.7)  # as a driver does
    began = time.monotonic()
    with pytest.raises(HungError, match=r"did not answer in 0\.7 s$"):
        one.ask()
    assert time.monotonic() - began < 30


def test_a_long_answer_and_one_that_dies(make: Make) -> None:
    assert len(make(lambda: lambda: {"text": "x" * 1_000_000}).ask()["text"]) == 1_000_000


def test_one_that_dies(make: Make) -> None:
    with pytest.raises(NodeError, match="without an answer"):
        make(lambda: lambda: os.kill(os.getpid(), signal.SIGSEGV) or {}).ask()


def test_it_ends_when_nobody_can_ask_it(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        one = Resident(lambda: lambda: {"pid": os.getpid()}, seconds=5, lock=str(tmp_path / "run/lock"))
        (tmp_path / "pid").write_text(str(one.ask()["pid"]))
        os._exit(0)
    os.waitpid(child, 0)
    pid, end = int((tmp_path / "pid").read_text()), time.monotonic() + 60
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < end:
        time.sleep(0.02)  # it is told by the end of a pipe
    assert not Path(f"/proc/{pid}/exe").exists()


@pytest.mark.root
@pytest.mark.btrfs
@pytest.mark.needs("fsfreeze")
def test_one_that_no_signal_reaches_is_left_and_no_second_is_started(make: Make, storage: Storage) -> None:
    """A write to a frozen file system sleeps where SIGKILL does not reach it, as in a driver that hangs."""
    at = storage.point
    one = make(lambda: lambda: {"written": (at / "x").write_text("x")}, 0.7)
    subprocess.run(["fsfreeze", "--freeze", at], check=True)
    try:
        with pytest.raises(HungError, match="cannot be ended: reboot") as caught:
            one.ask()
        assert caught.value.left is not None
        for again in (one, make(lambda: lambda: {"well": True})):
            began = time.monotonic()
            with pytest.raises(HungError, match="an earlier question"):
                again.ask()
            assert time.monotonic() - began < 30
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", at], check=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            assert one.ask() == {"written": 1}
            return
        except HungError:
            time.sleep(0.1)  # the one that was left has to end first
    pytest.fail("it does not answer again")

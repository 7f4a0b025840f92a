"""Calls that may hang: what comes back, once and again and again, and what ends without an answer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import isolated_call as package
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.isolated_call import HungError, Resident, isolated_call

from tests.support.storage import Storage


@pytest.fixture
def lock(tmp_path: Path) -> str:
    return str(tmp_path / "run/gpus.lock")


def test_an_answer(lock: str) -> None:
    assert isolated_call(lambda: {"pid": os.getpid()}, seconds=60, lock=lock)["pid"] != os.getpid()


def test_a_long_answer(lock: str) -> None:
    assert len(isolated_call(lambda: {"text": "x" * 1_000_000}, seconds=60, lock=lock)["text"]) == 1_000_000


def test_an_error_is_ours(lock: str) -> None:
    def broken() -> dict[str, object]:
        raise NodeError("no driver")

    def wrong() -> dict[str, object]:
        raise KeyError("x")

    with pytest.raises(NodeError, match=r"^no driver$"):
        isolated_call(broken, seconds=60, lock=lock)
    with pytest.raises(NodeError, match="KeyError"):
        isolated_call(wrong, seconds=60, lock=lock)


def test_a_process_that_dies(lock: str) -> None:
    def dies() -> dict[str, object]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return {}

    with pytest.raises(NodeError, match="ended without an answer"):
        isolated_call(dies, seconds=60, lock=lock)


def test_one_that_hangs_is_ended(lock: str) -> None:
    def hangs() -> dict[str, object]:
        time.sleep(60)  # as a driver does
        return {}

    began = time.monotonic()
    with pytest.raises(HungError, match=r"did not answer in 0\.3 s$") as caught:
        isolated_call(hangs, seconds=0.3, lock=lock)
    assert time.monotonic() - began < 30
    assert caught.value.left is None
    assert isolated_call(lambda: {"well": True}, seconds=60, lock=lock) == {"well": True}


def test_while_one_hangs_no_second_is_started(lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that cannot be ended: here, because nobody ends it."""
    killed: list[int] = []
    monkeypatch.setattr(package.os, "kill", lambda pid, number: killed.append(pid))
    monkeypatch.setattr(package, "_END_SECONDS", 0.1)

    def hangs() -> dict[str, object]:
        signal.alarm(0)  # it does not end itself either
        time.sleep(60)  # as a driver does
        return {}

    with pytest.raises(HungError, match="cannot be ended: reboot the node") as caught:
        isolated_call(hangs, seconds=0.2, lock=lock)
    left = caught.value.left
    assert [left] == killed
    began = time.monotonic()
    with pytest.raises(HungError, match="an earlier question"):
        isolated_call(dict, seconds=0.3, lock=lock)
    assert time.monotonic() - began < 30
    monkeypatch.undo()
    assert left is not None
    os.kill(left, signal.SIGKILL)
    os.waitpid(left, 0)
    assert isolated_call(dict, seconds=60, lock=lock) == {}


WAITED_FOR = """
import signal, sys, time
sys.path.insert(0, sys.argv[1])
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import isolated_call
isolated_call.os.kill = lambda *_: None  # it cannot be ended
isolated_call._END_SECONDS = 0.1
try:
    # alarm(0): it does not end itself either
    isolated_call.isolated_call(lambda: (signal.alarm(0), time.sleep(40)) and {}, seconds=0.2, lock=sys.argv[2])
except isolated_call.HungError as error:
    print(error.left)
"""


@pytest.mark.holds("what hangs holds nothing of ours")
def test_whoever_reads_our_output_does_not_wait_for_what_hangs(lock: str) -> None:
    """As sshd does, which ends a connection when all that can write into it have closed it."""
    collections = Path(package.__file__).resolve().parents[6]
    done = subprocess.run(
        [sys.executable, "-c", WAITED_FOR, collections, lock], capture_output=True, text=True, check=True, timeout=20
    )
    os.kill(int(done.stdout), signal.SIGKILL)


@pytest.mark.root
@pytest.mark.btrfs
@pytest.mark.needs("fsfreeze")
def test_one_that_no_signal_reaches_is_left(storage: Storage, lock: str) -> None:
    """A write to a frozen file system sleeps where SIGKILL does not reach it, as in a driver that hangs."""
    at = storage.point
    subprocess.run(["fsfreeze", "--freeze", at], check=True)
    try:
        began = time.monotonic()
        with pytest.raises(HungError, match="cannot be ended: reboot") as caught:
            isolated_call(lambda: {"written": (at / "x").write_text("x")}, seconds=0.5, lock=lock)
        assert time.monotonic() - began < 30
        assert caught.value.left is not None
        state = Path(f"/proc/{caught.value.left}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "D"
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", at], check=True)
    os.waitpid(caught.value.left, 0)


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


def test_a_resident_that_hangs_is_ended(make: Make) -> None:
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

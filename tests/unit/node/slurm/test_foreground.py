"""A command in the foreground: its exit status, signals and end are its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.foreground import interruptible, run_foreground

from tests.support.machine import in_repository


def never() -> bool:
    return False


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("test $A = 1", 0), ("kill -INT $$; exit 3", 130)],
)
def test_the_exit_status_and_the_environment_are_the_commands(script: str, status: int) -> None:
    assert run_foreground(["sh", "-c", script], {**os.environ, "A": "1"}, never) == status


def test_what_is_over_is_asked_to_end_and_then_ended(tmp_path: Path) -> None:
    asked = f"trap 'echo asked >{tmp_path}/asked' TERM; while :; do sleep 0.05; done"
    began = time.monotonic()
    assert run_foreground(["sh", "-c", asked], os.environ, lambda: 0.5, looks=0.3) == 137
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert time.monotonic() - began < 10


def test_what_ends_whoever_waits_is_as_ctrl_c_and_what_is_ignored_stays_so() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
        ignored = ["sh", "-c", "kill -HUP $$; exit 4"]
        assert run_foreground(ignored, os.environ, never) == 4
    finally:
        signal.signal(signal.SIGHUP, before)


_CALLER = """import os, sys
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.foreground import run_foreground
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
sys.exit(run_foreground(["sh", "-c", sys.argv[2]], os.environ, lambda: False, (handle,)))
"""


def call(path: Path, script: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _CALLER, str(path), script]
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, env=in_repository())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_sent_to_us_the_command_gets(tmp_path: Path, number: signal.Signals) -> None:
    caller = call(
        tmp_path / "file", f"trap 'echo got; exit 5' {number.name[3:]}; echo $$; while :; do sleep 0.05; done"
    )
    assert caller.stdout is not None
    caller.stdout.readline()
    caller.send_signal(number)
    assert (caller.stdout.read(), caller.wait(10)) == ("got\n", 5)


def test_who_is_killed_takes_the_command_along_unless_it_does_not_listen(tmp_path: Path) -> None:
    for trap, stays in (("", False), ("trap '' HUP; ", True)):
        caller = call(tmp_path / "file", f"{trap}echo $$; exec sleep 60")
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        assert str(tmp_path / "file") in {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()}
        caller.kill()
        caller.wait()
        time.sleep(0.5)  # a signal that does not come cannot be waited for
        there = Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
        assert there == stays
        if stays:
            os.kill(pid, signal.SIGKILL)


def test_a_signal_that_comes_while_the_command_is_started_is_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    assert run_foreground(["sleep", "9"], os.environ, never) == 143

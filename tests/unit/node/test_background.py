"""Work in units: begun once, found again, and a result that is of the start that was waited for."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import jobs as work
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished, program

from gpuadmin.common.records.backups import BackupOrder
from tests.support.storage import Storage, mounted

SLOW = {"command": ["sh", "-c", "sleep 1; echo done"]}
QUICK = {"command": ["echo", "done"]}
HANGS = {"command": ["sleep", "1000"]}
SAID = {"status": 0, "output": "done\n"}


class Systemd:
    """Runs what systemd-run is given, in the background, and knows whether it is still running."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.started = 0

    def __call__(self, command: Sequence[str]) -> Finished:
        out = ""
        if command[0] == "systemd-run":
            self.started += 1
            name = next(word for word in command if word.startswith("--unit=")).removeprefix("--unit=")
            words = list(command)[list(command).index("--") + 1 :]
            self.processes[name] = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
        elif command[:2] == ("systemctl", "show"):
            process = self.processes.get(command[-1])
            out = "active" if process is not None and process.poll() is None else "inactive"
        return subprocess.CompletedProcess(command, 0, out, "")

    def finished(self) -> None:
        for process in self.processes.values():
            process.wait(120)

    def kill(self) -> None:
        """What `systemctl stop` does."""
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.finished()


def perform(systemd: Systemd, base: Path, arguments: dict[str, Any], **more: Any) -> Any:
    return background.perform("x", program, arguments, run=systemd, systemd=True, base=str(base), **more)


# whoever waits in one call


@pytest.mark.btrfs
def test_long_work_survives_who_started_it(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        storage = Storage(point)
        storage.home("minji", 20001)
        order = storage.request()
        systemd = Systemd()

        def make(given: BackupOrder, wait: float | None = None) -> Any:
            base = str(tmp_path / "run")
            return background.perform("make", work.make_backup, given, run=systemd, systemd=True, base=base, wait=wait)

        with pytest.raises(NodeError, match="still working"):
            make(order, wait=0)
        with pytest.raises(NodeError, match="still runs another job"):
            make(replace(order, name="x"))
        done = make(order)
        assert done["homes"]["minji"]["verified"]
        assert systemd.started == 1
        with pytest.raises(NodeError, match="is not a name for a backup"):
            make(replace(order, name="x"))
        assert systemd.started == 2


def test_a_proof_is_of_this_run(tmp_path: Path) -> None:
    """A job that ended before this run, and whose result nobody took, says nothing of what is there now."""
    systemd, looked_at = Systemd(), tmp_path / "looked at"
    looked_at.write_text("good")
    with pytest.raises(NodeError, match="still working"):
        perform(systemd, tmp_path / "run", {"command": ["cat", str(looked_at)]}, wait=0)
    systemd.finished()
    assert (tmp_path / "run/jobs/x" / background.RESULT).exists()
    looked_at.write_text("damaged since")
    assert perform(systemd, tmp_path / "run", {"command": ["cat", str(looked_at)]})["output"] == "damaged since"
    assert systemd.started == 2


def test_who_sees_it_at_work_waits_for_it(tmp_path: Path) -> None:
    """Begun by a run that was killed, it is doing the same work now: the next run takes what it will say."""
    systemd = Systemd()
    with pytest.raises(NodeError, match="still working"):
        perform(systemd, tmp_path, SLOW, wait=0)
    assert perform(systemd, tmp_path, SLOW) == SAID
    assert systemd.started == 1
    assert perform(systemd, tmp_path, SLOW) == SAID
    assert systemd.started == 2, "what was taken is not taken again"


def test_what_another_start_said_is_not_ours(tmp_path: Path) -> None:
    """It ended and was begun again by somebody else between two looks."""

    class Between(Systemd):
        def __call__(self, command: Sequence[str]) -> Finished:
            said = super().__call__(command)
            if command[0] == "systemd-run":
                self.finished()
                other = {"format": background.FORMAT, "value": "of another", "problem": None, "start": "another"}
                (tmp_path / "jobs/x" / background.RESULT).write_text(json.dumps(other))
            return said

    with pytest.raises(NodeError, match="without an answer"):
        perform(Between(), tmp_path, QUICK)


def test_who_asks_again_hears_what_was_said(tmp_path: Path) -> None:
    """ssh broke, and Ansible asks once more: the start of that run is known, at work or ended, and no other one."""
    systemd, base = Systemd(), str(tmp_path)
    with pytest.raises(NodeError, match="still working"):
        perform(systemd, tmp_path, SLOW, wait=0, start="ours")
    assert background.said("x", "ours", run=systemd, base=base) == SAID
    for other in ("another's", ""):
        assert background.said("x", other, run=systemd, base=base) is None
    with pytest.raises(NodeError):
        perform(systemd, tmp_path, {}, start="bad")
    with pytest.raises(NodeError, match="KeyError"):
        background.said("x", "bad", run=systemd, base=base)
    assert systemd.started == 2


def test_work_that_is_killed_ends_without_a_word(tmp_path: Path) -> None:
    systemd = Systemd()
    with pytest.raises(NodeError, match="still working"):
        perform(systemd, tmp_path, HANGS, wait=0)
    systemd.kill()
    assert perform(systemd, tmp_path, QUICK) == SAID


def test_two_at_once_begin_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is at work is looked at, and it is begun, under one lock."""
    systemd, asked = Systemd(), []

    def held(path: str) -> Any:
        asked.append(path)
        raise NodeError(f"{path} is held")

    monkeypatch.setattr(background, "flocked", held)
    with pytest.raises(NodeError, match="is held"):
        perform(systemd, tmp_path, QUICK)
    with pytest.raises(NodeError, match="is held"):
        background.attend(background.Job("x", program, QUICK, "x", base=str(tmp_path), run=systemd), "first", 0)
    assert asked == [str(tmp_path / "jobs/x.lock")] * 2
    assert systemd.started == 0


def test_what_a_job_is_asked_and_says_is_root_s_alone(tmp_path: Path) -> None:
    assert perform(Systemd(), tmp_path, QUICK) == SAID
    place = tmp_path / "jobs/x"
    assert place.stat().st_mode & 0o777 == 0o700
    assert {(place / name).stat().st_mode & 0o777 for name in (background.REQUEST, background.RESULT)} == {0o600}


def test_without_systemd_it_is_done_here(tmp_path: Path) -> None:
    assert background.perform("x", program, QUICK, systemd=False, base=str(tmp_path)) == SAID
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"command": ["/nonexistent/program"]}, "/nonexistent/program: No such file or directory"),
        ({}, "KeyError: 'command'"),
    ],
)
def test_whatever_goes_wrong_is_said(tmp_path: Path, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(NodeError, match=problem):
        perform(Systemd(), tmp_path, arguments)


# whoever comes back and asks


def job(systemd: Systemd, base: Path, arguments: dict[str, Any], name: str = "one") -> background.Job:
    return background.Job("x", program, arguments, f"push {name}", {"name": name}, base=str(base), run=systemd)


def attend(job: background.Job, begun: str, wait: float = 0) -> Any:
    found = background.attend(job, begun, wait)
    return None if found is None else found.value


def test_it_is_begun_once_and_its_result_is_found(tmp_path: Path) -> None:
    systemd = Systemd()
    pushed = job(systemd, tmp_path, SLOW)
    assert attend(pushed, "a push") is None
    assert background.progress(pushed) == ""
    background.progress_writer("x", str(tmp_path))("fetching 1.0 of 2.0 MB")
    assert attend(pushed, "a push") is None
    assert background.progress(pushed) == "fetching 1.0 of 2.0 MB"
    systemd.finished()
    assert attend(pushed, "a push") == SAID
    assert systemd.started == 1


def test_the_next_run_waits_for_what_an_earlier_one_began_and_then_does_its_own(tmp_path: Path) -> None:
    systemd = Systemd()
    attend(job(systemd, tmp_path, SLOW), "a push")
    again = job(systemd, tmp_path, QUICK)  # the same work, though its details are others
    assert attend(again, "b push") is None
    assert systemd.started == 1
    systemd.finished()
    assert attend(again, "b push", wait=100) == SAID
    assert systemd.started == 2


def test_a_result_stays_until_the_next_one(tmp_path: Path) -> None:
    """Whoever began the work asks for it after somebody else has begun it anew."""
    systemd = Systemd()
    first = job(systemd, tmp_path, QUICK)
    assert attend(first, "a push", wait=100) == SAID
    assert attend(job(systemd, tmp_path, HANGS), "b push") is None
    assert attend(first, "a push") == SAID
    systemd.kill()


def test_other_work_is_not_disturbed(tmp_path: Path) -> None:
    systemd = Systemd()
    attend(job(systemd, tmp_path, HANGS), "a push")
    with pytest.raises(NodeError, match=r"x\.service still runs another job \(push one\)"):
        attend(job(systemd, tmp_path, QUICK, "two"), "b push")
    systemd.kill()


def test_work_that_was_killed_is_not_begun_again_by_itself(tmp_path: Path) -> None:
    systemd = Systemd()
    attend(job(systemd, tmp_path, HANGS), "a push")
    systemd.kill()
    with pytest.raises(NodeError, match="ended from outside"):
        attend(job(systemd, tmp_path, HANGS), "a push")
    assert attend(job(systemd, tmp_path, QUICK), "b push", wait=100) == SAID
    assert systemd.started == 2


@pytest.mark.parametrize("begin", ["perform", "attend"])
@pytest.mark.parametrize("request_text", ["", "{", "[]", '{"format": 1, "id": "a push"}', None])
def test_a_job_of_another_version_is_not_taken_for_ours(tmp_path: Path, begin: str, request_text: str | None) -> None:
    """Its unit works, and what its request says is not known."""
    systemd, begun = Systemd(), tmp_path / "begun"
    lasting = {"command": ["sh", "-c", f"touch {begun}; exec sleep 1000"]}
    ours = job(systemd, tmp_path, lasting)
    attend(ours, "a push")
    while not begun.exists():  # it has read its request
        assert next(iter(systemd.processes.values())).poll() is None
        time.sleep(0.01)  # nothing tells when a program has begun
    path = tmp_path / "jobs/x" / background.REQUEST
    if request_text is None:
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": background.FORMAT + 1}))
    else:
        path.write_text(request_text)
    with pytest.raises(NodeError, match="still runs another job; wait"):
        attend(ours, "a push") if begin == "attend" else perform(systemd, tmp_path, lasting, wait=0)
    systemd.kill()


def test_a_result_of_another_version_is_none(tmp_path: Path) -> None:
    systemd = Systemd()
    place = tmp_path / "jobs/x"
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    (place / background.RESULT).write_text(
        json.dumps({"format": 1, "start": "a push", "value": "old", "problem": None})
    )
    assert attend(job(systemd, tmp_path, QUICK), "a push", wait=100) == SAID


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "POLL", 0.02)


def test_a_job_needs_nothing_that_is_installed(tmp_path: Path) -> None:
    assert background.command(str(tmp_path))[:3] == (sys.executable, "-I", "-B")

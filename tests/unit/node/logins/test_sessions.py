"""Sessions of those who leave end, and nobody else's."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import sessions
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person

from tests.support.hostile_scene import silent
from tests.support.slices import own_slice
from tests.support.unfinished import first_thread_ended
from tests.unit.node.logins.conftest import JIHO, MINJI

root_only = pytest.mark.root  # gives files to other users


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def start(running: list[subprocess.Popen[bytes]], uid: int, command: str = "sleep 1000") -> None:
    words = [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "sh",
        "-c",
        f"trap '' TERM HUP; {command}",
    ]
    running.append(subprocess.Popen(words, start_new_session=True))
    deadline = time.monotonic() + 20
    while all(one.uid != uid for one in sessions.processes()):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # until it has become the person's


@root_only
def test_sessions_end_and_nobody_else_s(running: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    start(running, MINJI.uid)
    start(running, MINJI.subids.start + 999)  # in a container
    start(running, JIHO.uid)
    (tmp_path / "minji").touch()
    (tmp_path / "jiho").touch()
    asked: list[tuple[str, ...]] = []

    def note(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(tuple(command))
        return silent(command)

    host = sessions.Host(linger=str(tmp_path), run=note, gentle=1, patience=20)
    check = sessions.converge([MINJI], check=True, host=host)
    assert [process.poll() for process in running] == [None, None, None]
    plan = sessions.converge([MINJI], host=host)
    assert plan.operations == check.operations
    assert plan.operations[0] == "minji: end linger"
    assert plan.conflicts == []
    assert [process.wait() if place < 2 else process.poll() for place, process in enumerate(running)] == [-9, -9, None]
    assert [path.name for path in tmp_path.iterdir()] == ["jiho"]
    assert all(str(JIHO.uid) not in " ".join(command) and "jiho" not in command for command in asked)
    assert sessions.converge([MINJI], host=host).operations == []


@root_only
@pytest.mark.holds("a fork bomb does not delay its own end")
def test_who_forks_without_end_is_ended_before_anybody_is_asked(
    running: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """logind and systemd answer when the bomb is over."""
    with own_slice(MINJI.uid) as slice_:
        start(running, MINJI.uid, "while :; do sleep 0.05; done")
        (slice_ / "cgroup.procs").write_text(str(running[0].pid))
        asked: list[bool] = []

        def answers(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            end = time.monotonic() + 2  # what was killed needs a moment
            while not (gone := "populated 0" in (slice_ / "cgroup.events").read_text()) and time.monotonic() < end:
                time.sleep(0.02)  # nothing tells when a cgroup is empty
            asked.append(gone)
            return silent(command)

        (tmp_path / "minji").touch()
        mount = str(slice_.parents[1])
        host = sessions.Host(linger=str(tmp_path), run=answers, gentle=0.5, patience=20, cgroups=mount)
        assert sessions.converge([MINJI], host=host).conflicts == []
        assert list(tmp_path.iterdir()) == []
        running[0].wait(10)
        assert asked[0], "nothing of hers is left when they are asked"


@root_only
@pytest.mark.holds("who ended their first thread alone still runs the others")
def test_a_process_whose_first_thread_has_ended_is_ended() -> None:
    with first_thread_ended(MINJI.uid) as process:
        assert any(one.pid == process.pid for one in sessions.processes())
        host = sessions.Host(linger="/nonexistent", run=silent, gentle=0.5, patience=20)
        assert sessions.converge([MINJI], host=host).conflicts == []
        assert process.wait(20) < 0


@root_only
def test_what_ends_by_itself_is_let_end(running: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    words = ["setpriv", f"--reuid={MINJI.uid}", "--clear-groups", "sh", "-c",
             "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    running.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    host = sessions.Host(linger=str(tmp_path), run=silent, patience=20)
    assert sessions.converge([MINJI], host=host).conflicts == []
    assert process.stdout.read() == b"saved\n"
    process.stdout.close()


@root_only
def test_a_session_that_ends_by_itself_in_the_grace_time(
    running: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(running, MINJI.uid, "sleep 1")
    told: list[str] = []
    host = sessions.Host(linger=str(tmp_path), run=silent, patience=20)
    monkeypatch.setattr(sessions.terminals, "tell", told.append)
    before = time.monotonic()
    plan = sessions.converge([MINJI], message="now", grace=60, host=host)
    assert time.monotonic() - before < 30
    assert (told, plan.conflicts) == (["now"], [])


def test_who_does_not_stop_keeps_nobody_waiting() -> None:
    """A service of a person's own may take minutes to stop."""
    both = threading.Barrier(2, timeout=20)

    def stop(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[:2] == ("systemctl", "stop"):
            both.wait()  # nobody goes on before both are asked
        return silent(command)

    found = [sessions.Process(2**22 + 5, MINJI.uid, "x", "S"), sessions.Process(2**22 + 6, JIHO.uid, "x", "S")]
    answers = iter([found, [], []])
    host = sessions.Host(linger="/nonexistent", run=stop, processes=lambda: next(answers, []), gentle=0, patience=0)
    assert sessions.converge([MINJI, JIHO], host=host).conflicts == []


def test_what_cannot_be_ended_is_said() -> None:
    stuck = sessions.Process(2**22 + 5, MINJI.uid, "python3", "D")
    host = sessions.Host(linger="/nonexistent", run=silent, processes=lambda: [stuck], gentle=0, patience=0)
    plan = sessions.converge([MINJI], host=host)
    assert plan.conflicts == ["minji: still runs python3 (the kernel does not let them go; reboot the host)"]


@root_only
def test_a_number_that_somebody_else_has_by_now_is_not_killed(running: list[subprocess.Popen[bytes]]) -> None:
    start(running, JIHO.uid)
    sessions._signal(sessions.Process(running[0].pid, MINJI.uid, "bash", "S"), [MINJI], signal.SIGKILL)
    time.sleep(0.2)  # long enough to end, if it were killed
    assert running[0].poll() is None
    sessions._signal(sessions.Process(running[0].pid, JIHO.uid, "bash", "S"), [JIHO], signal.SIGKILL)
    assert running[0].wait(10) == -9


@root_only
def test_a_process_does_not_hide_behind_its_name(running: list[subprocess.Popen[bytes]]) -> None:
    """A name may hold a carriage return, and then what looks like another line of its status."""
    code = (
        "import ctypes, os, time; libc = ctypes.CDLL(None); "
        f"os.setresgid(*[{MINJI.uid}] * 3); os.setresuid(*[{MINJI.uid}] * 3); "
        "libc.prctl(15, b'x\\rUid:\\t0 0 0 0', 0, 0, 0); print('ready', flush=True); time.sleep(1000)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    running.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert sessions._uid(process.pid) == MINJI.uid
    found = [one for one in sessions.processes() if one.pid == process.pid]
    assert [one.uid for one in found] == [MINJI.uid]
    # what is not readable by its own user belongs to root in /proc: the recheck then relies on the status alone
    sessions._signal(found[0], [], signal.SIGKILL)
    assert process.wait(10) == -9
    process.stdout.close()


@pytest.mark.holds("what forks and ends while one looks is in no single look")
def test_what_is_in_one_look_and_not_in_the_next_is_still_there() -> None:
    """It forks and ends all the time: its next number came after the look at the directory."""
    one = sessions.Process(999_999_999, 1_900_000_001, "python3", "S")
    looks = iter([[one], [one], [], [], [one]])
    seen: list[int] = []

    def look() -> list[sessions.Process]:
        found = next(looks, [])
        seen.append(len(found))
        return found

    host = sessions.Host(linger="/nonexistent", run=silent, processes=look, gentle=0, patience=5)
    plan = sessions.converge([Person("minji", 1_900_000_001)], host=host)
    assert plan.entries["minji"].status == "ended"
    assert seen[:5] == [1, 1, 0, 0, 1], "it was looked for again"

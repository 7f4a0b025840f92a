"""Sessions, terminals and log-in access: of those who leave they end, and nobody else's."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access, occupants, sessions, terminals
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person

from tests.support.failing import fail_for
from tests.support.hostile_scene import silent
from tests.support.slices import own_slice
from tests.support.storage import run
from tests.support.unfinished import first_thread_ended
from tests.unit.node.logins.conftest import JIHO, MINJI


def test_a_job_that_is_still_there_is_a_way_in(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\n")
    (tmp_path / "var/spool/cron/crontabs").mkdir(parents=True)
    person, host = Person("minji", 20001, range(0)), access.Host(root=str(tmp_path))
    assert access.way_in(person, host) is None
    (tmp_path / "var/spool/cron/crontabs/minji").write_text("* * * * * mine\n")
    assert access.way_in(person, host) == "has cron or at jobs"


root_only = pytest.mark.root  # gives files to other users


@pytest.fixture
def host(tmp_path: Path) -> access.Host:
    for name in ("etc", "var/spool/cron/crontabs", "var/spool/cron/atjobs", "var/lib/systemd/linger", "run/gpuadmin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\njiho:$y$hash:1:0:99999:7:::\n")
    (tmp_path / "var/spool/cron/crontabs/minji").write_text("* * * * * mine\n")
    (tmp_path / "var/lib/systemd/linger/minji").touch()
    return access.Host(root=str(tmp_path), run=silent)


@root_only
def test_login_access_is_closed_and_opened_again(host: access.Host, tmp_path: Path) -> None:
    job, other = (tmp_path / "var/spool/cron/atjobs" / name for name in ("a00001", "a00002"))
    for path, person in ((job, MINJI), (other, JIHO)):
        path.write_text("later\n")
        os.chown(path, person.uid, person.uid)
    check = access.converge([MINJI], True, host, check=True)
    assert (tmp_path / "var/lib/systemd/linger/minji").exists()
    plan = access.converge([MINJI], True, host)
    assert (
        plan.operations
        == check.operations
        == [
            "minji: end linger",
            "minji: keep from running: /var/spool/cron/crontabs/minji",
            "minji: keep from running: /var/spool/cron/atjobs/a00001",
        ]
    )
    assert plan.conflicts == []
    assert (job.exists(), other.exists()) == (False, True)

    assert access.converge([MINJI], True, host).operations == []
    access.converge([MINJI], False, host)
    assert (job.read_text(), job.stat().st_uid) == ("later\n", MINJI.uid)
    assert (tmp_path / "var/spool/cron/crontabs/minji").read_text() == "* * * * * mine\n"


@root_only
def test_jobs_keep_their_owner_on_the_way_to_another_file_system_and_back(host: access.Host, tmp_path: Path) -> None:
    """cron runs a table as whom its file belongs to, and refuses one of another mode."""
    crontab = tmp_path / "var/spool/cron/crontabs/minji"
    os.chown(crontab, MINJI.uid, 48213)
    crontab.chmod(0o600)
    os.utime(crontab, ns=(1, 123_456_789))
    os.setxattr(crontab, "user.note", b"x")
    state = tmp_path / "var/lib/gpuadmin"
    state.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", state)
    try:
        assert access.converge([MINJI], True, host).conflicts == []
        assert not crontab.exists()
        (aside,) = [path for path in state.rglob("*") if path.is_file()]
        assert (aside.stat().st_uid, aside.stat().st_mode & 0o7777) == (MINJI.uid, 0o600)
        assert access.converge([MINJI], False, host).conflicts == []
    finally:
        run("umount", state)
    facts = crontab.stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777, facts.st_mtime_ns) == (
        MINJI.uid, 48213, 0o600, 123_456_789,
    )  # fmt: skip
    assert crontab.read_text() == "* * * * * mine\n"
    assert [path.name for path in crontab.parent.iterdir()] == ["minji"]


def test_no_job_replaces_another_one(host: access.Host, tmp_path: Path) -> None:
    crontab = tmp_path / "var/spool/cron/crontabs/minji"
    access.converge([MINJI], True, host)
    crontab.write_text("newer\n")
    assert "is there already" in access.converge([MINJI], False, host).conflicts[0]
    assert crontab.read_text() == "newer\n"
    assert access.converge([MINJI], True, host).conflicts == []
    aside = tmp_path / "var/lib/gpuadmin/closed" / f"minji-{MINJI.uid}"
    assert sorted(path.read_text() for path in aside.iterdir()) == ["* * * * * mine\n", "newer\n"]
    assert access.converge([MINJI], False, host).conflicts == []
    assert crontab.read_text() == "newer\n"
    # the older one stays aside, and becomes no table of another name
    assert [path.name for path in crontab.parent.iterdir()] == ["minji"]
    assert [path.read_text() for path in aside.iterdir()] == ["* * * * * mine\n"]


def test_one_door_that_sticks_keeps_no_other_open(
    host: access.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\njiho:!:1:0:99999:7::1:\n")
    (tmp_path / "var/spool/cron/crontabs/jiho").write_text("mine, too\n")
    with (tmp_path / "var/spool/cron/crontabs/minji").open("wb") as stream:
        stream.truncate(1 << 40)
    fail_for(
        monkeypatch,
        os,
        "rename",
        lambda source, target, **more: Path(source).parent != Path(target).parent,
        OSError(18, "Invalid cross-device link"),
    )
    plan = access.converge([MINJI, JIHO], True, host)
    assert [one.partition(":")[0] for one in plan.conflicts] == ["minji"]
    assert not (tmp_path / "var/spool/cron/crontabs/jiho").exists()


def test_a_job_that_ran_meanwhile_is_none(host: access.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "var/spool/cron/atjobs/a00001"
    gone.symlink_to("/nonexistent")  # something that a listing has, and that is not there when it is looked at
    real = os.lstat

    def lstat(path: Any, **more: Any) -> os.stat_result:
        if str(path) == str(gone):
            raise FileNotFoundError(path)
        return real(path, **more)

    monkeypatch.setattr(os, "lstat", lstat)
    assert access.converge([MINJI], True, host).conflicts == []


def test_a_closed_door_stays_closed(host: access.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on disk before it is said: after a power cut a job would run again."""
    linger = tmp_path / "var/lib/systemd/linger/minji"
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(access, "sync_filesystem", lambda path: synced.append((path, linger.exists())))
    access.converge([MINJI], True, host)
    assert synced == [(str(tmp_path / "var"), False)]
    access.converge([MINJI], True, host)
    assert len(synced) == 1, "nothing was done"


@pytest.mark.parametrize(
    ("shadow", "words"),
    [
        ("jiho:$y$hash:1:0:99999:7::1:\n", "a password that is not locked"),
        ("jiho:!:1:0:99999:7:::\n", "not expired"),
        ("jiho:!:1:0:99999:7::20000:\n", "not expired"),
    ],
)
def test_who_could_still_come_in_is_a_conflict(host: access.Host, tmp_path: Path, shadow: str, words: str) -> None:
    (tmp_path / "etc/shadow").write_text(shadow)
    assert words in access.converge([JIHO], True, host).conflicts[0]
    assert access.converge([JIHO], True, host, login=False).conflicts == []


def test_a_directory_s_group_decides(host: access.Host) -> None:
    def groups(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "jiho gpuusers\n", "")

    there = access.Host(root=host.root, group="gpuusers", run=groups)
    assert "still in the group gpuusers" in access.converge([JIHO], True, there).conflicts[0]


GONE = (
    "scancel: error: fetch_config: DNS SRV lookup failed\nscancel: fatal: Could not establish a configuration source\n"
)
DOWN = "scancel: error: Unable to contact slurm controller (connect failure)\n"


@pytest.mark.parametrize(
    ("complaint", "there", "fine"),
    [
        (GONE, None, True),  # the queue was taken away, its programs stay
        (GONE, "var/lib/gpuadmin/slurm/slurmd.env", False),  # slurmd has not fetched it yet
        (GONE, "etc/slurm/slurm.conf", False),
        (GONE, "run/slurm/conf/slurm.conf", False),
        (DOWN, None, False),
        ("", None, False),
    ],
)
def test_jobs_in_the_queue_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, there: str | None, fine: bool
) -> None:
    if there:
        (tmp_path / "etc" / there).parent.mkdir(parents=True)
        (tmp_path / "etc" / there).write_text("")
    answers, called = [subprocess.CompletedProcess([], 1, "", complaint)], []
    monkeypatch.setattr(access.shutil, "which", lambda _: "/usr/bin/scancel")
    known = access.no_queue
    monkeypatch.setattr(access, "no_queue", lambda said: known(said, str(tmp_path / "etc")))

    def answer(command: Sequence[str]) -> Any:
        called.append(tuple(command))
        return answers[0]

    machine = access.Host(root="/", run=answer)
    if fine:
        access._cancel_slurm(MINJI, machine)
    else:
        with pytest.raises(access.NodeError, match="jobs of minji in the queue are not cancelled"):
            access._cancel_slurm(MINJI, machine)
    assert called == [("scancel", "--user=minji")]


def test_who_is_on_a_node(tmp_path: Path) -> None:
    listed = (
        "5 20001 minji - 812 user pts/0 no -\n6 20001 minji - 813 manager - no -\n7 20002 jiho - 9 manager - no -\n"
        "c1 900 gpuadmin - 4 user - no -\n8 20003 sora seat0\n"
    )
    assert occupants.people(20000, 49999, listed) == ["minji", "sora"]
    process = tmp_path / "42"
    (process / "fd").mkdir(parents=True)
    (process / "fd/3").symlink_to("/dev/nvidia3")
    (process / "cgroup").write_text("0::/user.slice/user-20007.slice/user@20007.service/user.slice/docker-1.scope\n")
    uid = process.stat().st_uid
    assert occupants.gpu_users(uid, str(tmp_path)) == ["uid 20007"]
    assert occupants.gpu_users(uid + 1, str(tmp_path)) == []
    (process / "fd/3").unlink()
    (process / "fd/3").symlink_to("/dev/nvidiactl")
    assert occupants.gpu_users(uid, str(tmp_path)) == []


def test_who_has_a_container(tmp_path: Path) -> None:
    """Whether anybody is logged in or not; one without a cgroup of its own has a namespace of pids."""
    mine = "0::/user.slice/user-20007.slice/user@20007.service"

    def process(pid: int, cgroup: str, namespace: str = "1") -> None:
        (tmp_path / f"{pid}/ns").mkdir(parents=True)
        (tmp_path / f"{pid}/cgroup").write_text(f"{cgroup}\n")
        (tmp_path / f"{pid}/ns/pid").symlink_to(f"pid:[{namespace}]")

    process(1, "0::/init.scope")
    process(40, f"{mine}/app.slice/docker.service")  # the daemon, which waits for its person
    process(41, f"0::/system.slice/docker-{'a' * 64}.scope", "7")  # root's
    (tmp_path / "42").mkdir()  # it has ended meanwhile
    assert occupants.container_users(20000, 49999, str(tmp_path)) == []
    process(43, f"{mine}/user.slice/docker-{'a' * 64}.scope")
    assert occupants.container_users(20000, 49999, str(tmp_path)) == ["uid 20007"]
    assert occupants.container_users(20008, 49999, str(tmp_path)) == []
    process(44, "0::/user.slice/user-20008.slice/user@20008.service/app.slice/docker.service", "8")
    assert occupants.container_users(20000, 49999, str(tmp_path)) == ["uid 20007", "uid 20008"]
    (tmp_path / "1/ns/pid").unlink()
    with pytest.raises(OSError, match="ns/pid"):
        occupants.container_users(20000, 49999, str(tmp_path))


def test_who_is_there_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is not answered is not taken for "nobody"."""
    loginctl = tmp_path / "loginctl"
    loginctl.write_text("#!/bin/sh\necho 'Connection refused' >&2\nexit 1\n")
    loginctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeError, match="not known who is logged in: Connection refused"):
        occupants.people(20000, 49999)


@pytest.mark.root
def test_who_closes_files_all_the_time_does_not_hide_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file of a process is gone when it is looked at; the process has others."""
    process = tmp_path / "41"
    (process / "fd").mkdir(parents=True)
    (process / "fd/1").symlink_to("/dev/null")
    (process / "fd/2").symlink_to("/dev/nvidia0")
    (process / "cgroup").write_text("0::/user.slice/user-48211.slice/session-1.scope\n")
    os.chown(process, 48211, 48211)
    real = os.readlink

    def readlink(path: str) -> str:
        if path.endswith("/fd/1"):
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert occupants.gpu_users(1000, str(tmp_path)) == ["uid 48211"]


@pytest.mark.root
def test_a_process_without_its_first_thread_holds_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel lists of the process itself is empty."""
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(occupants, "GPU_DEVICE", re.compile(re.escape(str(device))))
    with device.open() as card, first_thread_ended(31152, card.fileno()):
        assert occupants.gpu_users(31152) == ["uid 31152"]


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


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal that somebody has open: the end that shows, and the path of the other."""
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    os.close(theirs)
    os.close(ours)


def shown(handle: int) -> str:
    data = b""
    while select.select([handle], [], [], 0)[0]:
        data += os.read(handle, 4096)
    return data.decode()


def devices(tmp_path: Path, *paths: str) -> str:
    (tmp_path / "pts").mkdir()
    for number, path in enumerate(paths):
        (tmp_path / "pts" / str(number)).symlink_to(path)
    return str(tmp_path)


def test_one_person_alone_is_told_and_nothing_that_a_terminal_would_obey(
    tmp_path: Path, terminal: tuple[int, str]
) -> None:
    handle, path = terminal
    where, whose = devices(tmp_path, path), Path(path).stat().st_uid
    assert terminals.tell("not for you", where, uid=whose + 1) == 0
    assert terminals.tell("for you\nand more", where, uid=whose) == 1
    said = shown(handle)
    assert "for you\r\r\nand more\r" in said
    assert "not" not in said
    assert terminals.tell("one\x1b[2Jtwo\x07", where) == 1
    said = shown(handle)
    assert "one[2Jtwo\r" in said
    assert "\x1b" not in said


def test_a_terminal_that_is_stopped_holds_up_nobody(tmp_path: Path, terminal: tuple[int, str]) -> None:
    """Its buffer is full, since nobody reads it; another's is not, and a third has gone."""
    handle, path = terminal
    stopped, theirs = pty.openpty()
    os.set_blocking(theirs, False)
    with pytest.raises(BlockingIOError):
        deque(iter(lambda: os.write(theirs, b"x"), 0), maxlen=0)
    where = devices(tmp_path, os.ttyname(theirs), "/dev/pts/999999", path)
    assert terminals.tell("hello", where) == 1
    assert "hello" in shown(handle)
    os.close(theirs)
    os.close(stopped)


def test_only_terminals(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert terminals.tell("hello", devices(tmp_path, str(file))) == 0
    assert file.read_text() == ""


@pytest.mark.root  # gives files to other users
def test_consoles_of_people(tmp_path: Path) -> None:
    """A console that nobody has logged in at belongs to root; ptmx and names that are no terminals are left out."""
    where = devices(tmp_path)
    for name, uid in (("tty1", 0), ("tty2", 20000), ("ttyS0", 20001), ("tty", 20000), ("ttyprintk", 20000)):
        (tmp_path / name).write_text("")
        os.chown(tmp_path / name, uid, uid)
    (tmp_path / "pts/ptmx").write_text("")
    assert terminals.in_use(where) == [f"{where}/tty2", f"{where}/ttyS0"]


def test_a_console_that_is_unplugged_silences_no_other(tmp_path: Path) -> None:
    (tmp_path / "ttyUSB0").symlink_to(tmp_path / "gone")
    (tmp_path / "pts").mkdir()
    (tmp_path / "pts/0").touch()
    assert terminals.in_use(str(tmp_path)) == [str(tmp_path / "pts/0")]

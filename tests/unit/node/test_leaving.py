"""What a node does when people leave: sessions, login access, scratch, long work, retention."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import people
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, retention, timed
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import directories
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access, sessions
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import scratch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node.storage import Storage, mounted, run

root_only = pytest.mark.root  # gives files to other users
# uids that nobody on this machine has
MINJI = Person("minji", 48211, range(2900000000, 2900065536))
JIHO = Person("jiho", 48212, range(2900065536, 2900131072))


def silent(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(command, 0, "", "")


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
        time.sleep(0.05)


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

    host = sessions.Host(linger=str(tmp_path), run=note, patience=20)
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
    host = sessions.Host(linger="/nonexistent", run=stop, processes=lambda: next(answers, []), patience=0)
    assert sessions.converge([MINJI, JIHO], host=host).conflicts == []


def test_what_cannot_be_ended_is_said() -> None:
    stuck = sessions.Process(2**22 + 5, MINJI.uid, "python3", "D")
    host = sessions.Host(linger="/nonexistent", run=silent, processes=lambda: [stuck], patience=0)
    plan = sessions.converge([MINJI], host=host)
    assert plan.conflicts == ["minji: still runs python3 (the kernel does not let them go; reboot the host)"]


@root_only
def test_a_number_that_somebody_else_has_by_now_is_not_killed(running: list[subprocess.Popen[bytes]]) -> None:
    start(running, JIHO.uid)
    sessions._kill(sessions.Process(running[0].pid, MINJI.uid, "bash", "S"), [MINJI])
    time.sleep(0.2)
    assert running[0].poll() is None
    sessions._kill(sessions.Process(running[0].pid, JIHO.uid, "bash", "S"), [JIHO])
    assert running[0].wait(10) == -9


@root_only
def test_a_process_does_not_hide_behind_its_name(running: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
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
    sessions._kill(found[0], [])
    assert process.wait(10) == -9
    process.stdout.close()


@pytest.mark.parametrize(
    "given_",
    [
        [{"name": "root", "uid": 0}],
        [{"name": "-rf", "uid": 20000}],
        [{"name": "minji", "uid": 20000}, {"name": "minji", "uid": 20001}],
        [{"name": "minji", "uid": 20000}, {"name": "jiho", "uid": 20000}],
        [{"name": "minji", "uid": 20000, "subid_start": 1000, "subid_count": 65536}],
        [
            {"name": "minji", "uid": 20000, "subid_start": 2**31, "subid_count": 65536},
            {"name": "jiho", "uid": 20001, "subid_start": 2**31 + 5, "subid_count": 65536},
        ],
    ],
)
def test_people_who_cannot_be_told_apart_are_refused(given_: list[dict[str, Any]]) -> None:
    with pytest.raises(NodeError):
        people.parse(given_)


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
    job = tmp_path / "var/spool/cron/atjobs/a00001"
    job.write_text("later\n")
    os.chown(job, MINJI.uid, MINJI.uid)
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
    assert not job.exists()
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


def test_one_door_that_sticks_keeps_no_other_open(
    host: access.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\njiho:!:1:0:99999:7::1:\n")
    (tmp_path / "var/spool/cron/crontabs/jiho").write_text("mine, too\n")
    with (tmp_path / "var/spool/cron/crontabs/minji").open("wb") as stream:
        stream.truncate(1 << 40)
    real = os.rename

    def rename(source: str, target: str, **more: Any) -> None:
        if Path(source).parent != Path(target).parent:
            raise OSError(18, "Invalid cross-device link")
        real(source, target, **more)

    monkeypatch.setattr(os, "rename", rename)
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


def leave(directory: Path, name: bytes, uid: int, *inner: tuple[str, int]) -> Path:
    path = directory / os.fsdecode(name)
    path.mkdir()
    for one, owner in inner:
        (path / one).write_bytes(b"x")
        os.chown(path / one, owner, owner)
    os.chown(path, uid, uid)
    return path


@root_only
def test_scratch_goes_by_names_and_owners(tmp_path: Path) -> None:
    shared, docker = tmp_path / "shared", tmp_path / "docker"
    shared.mkdir()
    docker.mkdir()
    hostile = leave(shared, b"new\nline \xff%41", MINJI.uid, ("a", MINJI.uid), ("b", MINJI.subids.start + 7))
    mixed = leave(shared, b"mixed", MINJI.uid, ("mine", MINJI.uid), ("theirs", JIHO.uid))
    leave(shared, b"strange", MINJI.uid, ("theirs", pwd.getpwnam("nobody").pw_uid))
    theirs = leave(shared, b"theirs", JIHO.uid)
    leave(docker, b"minji", MINJI.uid, ("layer", MINJI.subids.start + 1000))
    leave(docker, b"other-name", MINJI.uid)
    (shared / "link").symlink_to("/etc/passwd")
    os.chown(shared / "link", MINJI.uid, MINJI.uid, follow_symlinks=False)
    found = scratch.observe([str(shared)], str(docker), [MINJI, JIHO])
    assert found.unknown == {str(docker): 1}
    mine = [item.as_dict() for item in found.items if item.user == "minji"]
    assert json.loads(json.dumps(mine)) == mine
    request = scratch.Request(mine, [str(shared), str(docker)], [MINJI])
    check = scratch.observe_and_compute(request)
    assert hostile.exists()
    plan, done = scratch.wipe(request)
    assert plan.operations == check.operations
    assert not hostile.exists()
    assert theirs.exists()
    assert [path.name for path in mixed.iterdir()] == ["theirs"]
    assert plan.conflicts == [
        f"{shared}/mixed: 1 entry stays: 'theirs' belongs to uid {JIHO.uid}",
        f"{shared}/strange: 1 entry stays: 'theirs' belongs to nobody (uid {pwd.getpwnam('nobody').pw_uid})",
    ]
    assert sorted(path.name for path in docker.iterdir()) == ["other-name"]
    assert Path("/etc/passwd").exists()
    assert not (shared / "link").is_symlink()
    assert done[f"{docker}/minji"].deleted == 2


@root_only
def test_scratch_that_is_gone_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on disk before it is said: after a power cut nobody would look for it again."""
    leave(tmp_path, b"a", MINJI.uid)
    item = scratch.observe([str(tmp_path)], None, [MINJI]).items[0].as_dict()
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(scratch, "sync_filesystem", lambda path: synced.append((path, (tmp_path / "a").exists())))
    scratch.wipe(scratch.Request([item], [str(tmp_path)], [MINJI]))
    assert synced == [(str(tmp_path), False)]


@contextmanager
def busy(code: str, *arguments: object) -> Iterator[None]:
    """A process of somebody else's that is at work meanwhile."""
    words = [sys.executable, "-c", f"import os, sys, time\n{code}", *map(str, arguments)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


CHURN = """
os.chdir(sys.argv[1]); number = 0
while True:
    for one in range(50): open(f"churn{number}-{one}", "w").close()
    for one in range(50): os.unlink(f"churn{number}-{one}")
    number += 1
    print(number, flush=True) if number == 2 else None
"""
SWAP = """
os.chdir(sys.argv[1]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2])); print("ready", flush=True)
while True:
    for act in (lambda: os.mkdir("a/in"), lambda: os.rename("a/in", "theirs/in"), lambda: os.symlink("/etc", "a/in"),
                lambda: os.unlink("a/in"), lambda: os.rename("theirs/in", "a/in"), lambda: os.mkdir("a/in/inner"),
                lambda: open("a/in/file", "w").close()):
        try: act()
        except OSError: pass
"""


@root_only
def test_facts_of_a_directory_that_is_never_still(tmp_path: Path) -> None:
    leave(tmp_path, b"a", MINJI.uid)
    with busy(CHURN, tmp_path):
        for _ in range(100):
            found = scratch.observe([str(tmp_path)], None, [MINJI])
            assert [item.name for item in found.items] == ["a"]
            assert found.problems == {}


@root_only
def test_a_race_for_one_entry_keeps_that_one_and_no_other(tmp_path: Path) -> None:
    """A directory that everybody may write in: somebody else moves what is in it while it is deleted."""
    leave(tmp_path, b"theirs", JIHO.uid)
    for _ in range(10):
        if not (tmp_path / "a").exists():
            leave(tmp_path, b"a", MINJI.uid).chmod(0o777)
        leave(tmp_path, b"z", MINJI.uid, ("mine", MINJI.uid))
        items = [item.as_dict() for item in scratch.observe([str(tmp_path)], None, [MINJI]).items]
        with busy(SWAP, tmp_path, JIHO.uid):
            time.sleep(0.05)
            plan, done = scratch.wipe(scratch.Request(items, [str(tmp_path)], [MINJI]))
        assert sorted(done) == [f"{tmp_path}/a", f"{tmp_path}/z"]
        assert not (tmp_path / "z").exists()
        assert all(one.startswith(f"{tmp_path}/a: ") for one in plan.conflicts)
        assert Path("/etc/passwd").exists()


@root_only
@pytest.mark.parametrize("error", [NodeError("'a/in' was moved while it was looked at"), OSError(40, "Too many links")])
def test_an_entry_that_cannot_be_deleted_is_named_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    leave(tmp_path, b"a", MINJI.uid)
    leave(tmp_path, b"b", JIHO.uid)
    items = [item.as_dict() for item in scratch.observe([str(tmp_path)], None, [MINJI, JIHO]).items]
    real = scratch.purge

    def purge(handle: int, name: bytes, judge: Any) -> Any:
        if name == b"a":
            raise error
        return real(handle, name, judge)

    monkeypatch.setattr(scratch, "purge", purge)
    plan, done = scratch.wipe(scratch.Request(items, [str(tmp_path)], [MINJI, JIHO]))
    assert (plan.entries[f"{tmp_path}/a"].user, plan.entries[f"{tmp_path}/a"].status) == ("minji", "conflict")
    assert done[f"{tmp_path}/a"].kept == 1
    assert not (tmp_path / "b").exists()


@root_only
def test_who_makes_a_million_entries_fills_nobody_s_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MOST_ITEMS", 3)
    for number in range(5):
        leave(tmp_path, b"%d" % number, MINJI.uid)
    leave(tmp_path, b"theirs", JIHO.uid)
    found = scratch.observe([str(tmp_path)], None, [MINJI, JIHO])
    assert [item.user for item in found.items].count("minji") == 3
    assert [item.name for item in found.items if item.user == "jiho"] == ["theirs"]
    assert found.problems == {f"{tmp_path}: minji": "has 5 entries there: 3 are named, the others stay for another run"}


@root_only
def test_a_directory_that_cannot_be_listed_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.mkdir()
    leave(tmp_path, b"good", 0)
    leave(good, b"a", MINJI.uid)
    real = os.scandir

    def scandir(path: Any) -> Any:
        if os.fsdecode(path) == str(bad):
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = scratch.observe([str(bad), str(good)], None, [MINJI])
    assert [item.name for item in found.items] == ["a"]
    assert "Input/output error" in found.problems[str(bad)]


@root_only
def test_scratch_that_is_not_what_was_decided(tmp_path: Path) -> None:
    leave(tmp_path, b"a", MINJI.uid)
    item = scratch.observe([str(tmp_path)], None, [MINJI]).items[0].as_dict()
    outside = tmp_path.parent
    for change, words in (
        ({"inode": 1}, "another thing"),
        ({"uid": JIHO.uid}, "does not belong"),
        ({"user": "jiho"}, "does not belong"),
        ({"name": "..%2fetc"}, "not a name"),
        ({"name": ".."}, "not a name"),
        ({"name": ""}, "not a name"),
        ({"directory": str(outside)}, "not a directory that is wiped"),
        ({"uid": None}, "no owner"),
    ):
        request = scratch.Request([{**item, **change}], [str(tmp_path)], [MINJI])
        plan, _done = scratch.wipe(request)
        assert words in plan.conflicts[0], change
    (tmp_path / "link").symlink_to(tmp_path)
    request = scratch.Request([{**item, "directory": f"{tmp_path}/link"}], [f"{tmp_path}/link"], [MINJI])
    assert "not a directory" in scratch.wipe(request)[0].conflicts[0]
    assert (tmp_path / "a").exists()


@pytest.mark.btrfs
def test_the_timer_s_backup(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        storage = Storage(point)
        storage.home("minji", 20001)
        kept = storage.backup()
        settings = {
            "root": str(storage.root), "directory": str(storage.directory), "mountpoint": str(point), "workers": 1,
            "ordinary": 1, "remote": None,
        }  # fmt: skip
        (tmp_path / "backups.json").write_text(json.dumps(settings))
        assert timed.make(settings, "20250101T000000Z-daily") == "20250101T000000Z-daily"
        assert timed.main(str(tmp_path)) == 0
        names = [one.name.partition("-")[2] for one in backup_set.complete(str(storage.directory))]
        assert sorted(names) == ["daily", kept.name.partition("-")[2]]
        assert not (storage.directory / "20250101T000000Z-daily").exists()
        assert timed.main(str(tmp_path / "nowhere")) == 1


@pytest.mark.btrfs
def test_a_new_home_root_is_a_subvolume(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        request = directories.Request(
            str(point / "homes"), [{"name": "minji", "uid": 20001}], mountpoint=str(point), skeleton="/nonexistent"
        )
        directories.converge(request, lock=str(tmp_path / "lock"))
        assert "homes" in run("btrfs", "subvolume", "list", point)
        assert (point / "homes").stat().st_mode & 0o7777 == 0o755
        (point / "homes/minji").rename(point / "homes/minji.restored-20261221T010203Z")
        assert directories.converge(request, lock=str(tmp_path / "lock")).conflicts == []


NOW = datetime(2026, 12, 21, tzinfo=UTC)


@st.composite
def sets(draw: st.DrawFn) -> list[retention.Kept]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        created = NOW - timedelta(days=draw(st.integers(0, 500)), seconds=number)
        label = draw(st.sampled_from(["daily", "manual", "reset-2026-1"]))
        having = draw(st.frozensets(st.sampled_from("abcd")))
        verified = having & draw(st.frozensets(st.sampled_from("abcd")))
        found.append(retention.Kept(f"{created:%Y%m%dT%H%M%SZ}-{label}", created, having, verified))
    return found


@given(sets(), st.integers(1, 400), st.integers(0, 5))
def test_nobody_s_newest_verified_home_goes(found: list[retention.Kept], days: int, ordinary: int) -> None:
    gone = set(retention.expired(found, days=days, ordinary=ordinary, now=NOW))
    left = [one for one in found if one.name not in gone]
    for name in "abcd":
        verified = [one for one in found if name in one.verified]
        if verified:
            assert max(verified, key=lambda one: (one.created, one.name)).name not in gone
        elif any(name in one.homes for one in found):
            assert any(name in one.homes for one in left)
    for one in found:
        if not one.ordinary and one.created > NOW - timedelta(days=days):
            assert one.name not in gone
    assert set(retention.expired(left, days=days, ordinary=ordinary, now=NOW)) == set()


def test_the_policy() -> None:
    def one(label: str, days: int, verified: str = "") -> retention.Kept:
        created = NOW - timedelta(days=days)
        return retention.Kept(f"{created:%Y%m%dT%H%M%SZ}-{label}", created, frozenset("ab"), frozenset(verified))

    found = [one("reset-old", 400, "ab"), one("reset-new", 10, "ab"), one("daily", 3), one("daily", 2), one("daily", 1)]
    gone = retention.expired(found, days=183, ordinary=2, now=NOW)
    assert [name.partition("-")[2] for name in gone] == ["reset-old", "daily"]
    # the old one stays as long as nobody's home was verified since
    rest = [found[0], *found[2:]]
    assert retention.expired(rest, days=183, ordinary=2, now=NOW) == [found[2].name]

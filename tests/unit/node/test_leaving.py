"""What a node does when people leave: sessions, doors, scratch, long work, retention."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import (
    backup_set,
    closing,
    homes,
    jobs,
    people,
    retention,
    scratch,
    sessions,
    timed_backup,
    work,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
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


def test_what_cannot_be_ended_is_said() -> None:
    stuck = sessions.Process(2**22 + 5, MINJI.uid, "python3", "D")
    host = sessions.Host(linger="/nonexistent", run=silent, processes=lambda: [stuck], patience=0)
    plan = sessions.converge([MINJI], host=host)
    assert plan.conflicts == ["minji: still runs python3 (the kernel does not let them go; reboot the host)"]


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
def host(tmp_path: Path) -> closing.Host:
    for name in ("etc", "var/spool/cron/crontabs", "var/spool/cron/atjobs", "var/lib/systemd/linger", "run/gpuadmin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\njiho:$y$hash:1:0:99999:7:::\n")
    (tmp_path / "var/spool/cron/crontabs/minji").write_text("* * * * * mine\n")
    (tmp_path / "var/lib/systemd/linger/minji").touch()
    return closing.Host(root=str(tmp_path), run=silent)


@root_only
def test_doors_close_and_open_again(host: closing.Host, tmp_path: Path) -> None:
    job = tmp_path / "var/spool/cron/atjobs/a00001"
    job.write_text("later\n")
    os.chown(job, MINJI.uid, MINJI.uid)
    check = closing.converge([MINJI], True, host, check=True)
    assert (tmp_path / "var/lib/systemd/linger/minji").exists()
    plan = closing.converge([MINJI], True, host)
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
    assert closing.converge([MINJI], True, host).operations == []
    closing.converge([MINJI], False, host)
    assert (job.read_text(), job.stat().st_uid) == ("later\n", MINJI.uid)
    assert (tmp_path / "var/spool/cron/crontabs/minji").read_text() == "* * * * * mine\n"


def test_a_closed_door_stays_closed(host: closing.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on disk before it is said: after a power cut a job would run again."""
    linger = tmp_path / "var/lib/systemd/linger/minji"
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(closing, "sync_filesystem", lambda path: synced.append((path, linger.exists())))
    closing.converge([MINJI], True, host)
    assert synced == [(str(tmp_path / "var"), False)]
    closing.converge([MINJI], True, host)
    assert len(synced) == 1, "nothing was done"


@pytest.mark.parametrize(
    ("shadow", "words"),
    [
        ("jiho:$y$hash:1:0:99999:7::1:\n", "a password that is not locked"),
        ("jiho:!:1:0:99999:7:::\n", "not expired"),
        ("jiho:!:1:0:99999:7::20000:\n", "not expired"),
    ],
)
def test_who_could_still_come_in_is_a_conflict(host: closing.Host, tmp_path: Path, shadow: str, words: str) -> None:
    (tmp_path / "etc/shadow").write_text(shadow)
    assert words in closing.converge([JIHO], True, host).conflicts[0]
    assert closing.converge([JIHO], True, host, login=False).conflicts == []


def test_a_directory_s_group_decides(host: closing.Host) -> None:
    def groups(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "jiho gpuusers\n", "")

    there = closing.Host(root=host.root, group="gpuusers", run=groups)
    assert "still in the group gpuusers" in closing.converge([JIHO], True, there).conflicts[0]


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
    assert plan.conflicts == [f"{shared}/mixed: 1 entries stay: 'theirs' belongs to uid {JIHO.uid}"]
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


class Systemd:
    """Runs what systemd-run is given, in the background, and knows whether it is still running."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.started = 0

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        out = ""
        if command[0] == "systemd-run":
            self.started += 1
            name = next(word for word in command if word.startswith("--unit=")).removeprefix("--unit=")
            words = list(command)[list(command).index("--") + 1 :]
            self.processes[name] = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        elif command[:2] == ("systemctl", "show"):
            process = self.processes.get(command[-1])
            out = "active" if process is not None and process.poll() is None else "inactive"
        return subprocess.CompletedProcess(command, 0, out, "")


@pytest.mark.btrfs
def test_long_work_survives_who_started_it(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        storage = Storage(point)
        storage.home("minji", 20001)
        arguments = vars(storage.request()) | {"verify": None}
        systemd = Systemd()
        perform = {"run": systemd, "systemd": True, "base": str(tmp_path / "run")}
        with pytest.raises(NodeError, match="still working"):
            jobs.perform("backup-make", work.make_backup, arguments, wait=0, **perform)  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="still at other work"):
            jobs.perform("backup-make", work.make_backup, {**arguments, "name": "x"}, **perform)  # type: ignore[arg-type]
        done = jobs.perform("backup-make", work.make_backup, arguments, **perform)  # type: ignore[arg-type]
        assert isinstance(done, dict)
        assert done["homes"]["minji"]["verified"]
        assert systemd.started == 1
        with pytest.raises(NodeError, match="is not a name for a backup"):
            jobs.perform("backup-make", work.make_backup, {**arguments, "name": "x"}, **perform)  # type: ignore[arg-type]
        assert systemd.started == 2


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
        assert timed_backup.make(settings, "20250101T000000Z-daily") == "20250101T000000Z-daily"
        assert timed_backup.main(str(tmp_path)) == 0
        names = [one.name.partition("-")[2] for one in backup_set.complete(str(storage.directory))]
        assert sorted(names) == ["daily", kept.name.partition("-")[2]]
        assert not (storage.directory / "20250101T000000Z-daily").exists()
        assert timed_backup.main(str(tmp_path / "nowhere")) == 1


@pytest.mark.btrfs
def test_a_new_home_root_is_a_subvolume(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        request = homes.Request(
            str(point / "homes"), [{"name": "minji", "uid": 20001}], mountpoint=str(point), skeleton="/nonexistent"
        )
        homes.converge(request, lock=str(tmp_path / "lock"))
        assert "homes" in run("btrfs", "subvolume", "list", point)
        assert (point / "homes").stat().st_mode & 0o7777 == 0o755
        (point / "homes/minji").rename(point / "homes/minji.restored-20261221T010203Z")
        assert homes.converge(request, lock=str(tmp_path / "lock")).conflicts == []


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


def test_the_shipped_package_needs_no_more(tmp_path: Path) -> None:
    jobs.ship_package(str(tmp_path))
    modules = "jobs", "work", "archive_home"
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from gpuadmin_node import {', '.join(modules)}"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)

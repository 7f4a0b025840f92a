"""Login access of those who leave: taken away whole, given back whole, and nobody else's."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import access
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person

from tests.support.hostile_scene import silent
from tests.support.storage import run
from tests.unit.node.logins.conftest import JIHO, MINJI


def test_a_job_that_is_still_there_is_a_way_in(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").write_text("minji:!*:1:0:99999:7::1:\n")
    (tmp_path / "var/spool/cron/crontabs").mkdir(parents=True)
    person, host = Person("minji", 20001, range(0)), access.Host(root=str(tmp_path))
    assert access.way_in(person, host) is None
    (tmp_path / "var/spool/cron/crontabs/minji").write_text("* * * * * mine\n")
    assert access.way_in(person, host) == "has cron or at jobs"


@pytest.mark.root
def test_jobs_of_those_who_stay_are_left_alone(tmp_path: Path) -> None:
    for name in ("var/spool/cron/atjobs", "run/gpuadmin"):
        (tmp_path / name).mkdir(parents=True)
    for name, uid in (("a1", 20001), ("a2", 20002)):
        (tmp_path / "var/spool/cron/atjobs" / name).write_text("later\n")
        os.chown(tmp_path / "var/spool/cron/atjobs" / name, uid, uid)
    access.converge([Person("minji", 20001, range(0))], True, access.Host(root=str(tmp_path)), login=False)
    assert [one.name for one in (tmp_path / "var/spool/cron/atjobs").iterdir()] == ["a2"]


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


GONE = (
    "scancel: error: fetch_config: DNS SRV lookup failed\nscancel: fatal: Could not establish a configuration source\n"
)
DOWN = "scancel: error: Unable to contact slurm controller (connect failure)\n"


@pytest.mark.holds("jobs that may wait in a queue are cancelled, or the lock fails")
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

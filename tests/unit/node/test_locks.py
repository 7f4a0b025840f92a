"""Locks that only root can have, and holders that do not move: they are named, and nobody waits for ever."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files, holders
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard

from tests.unit.node.holding import held

root_only = pytest.mark.root  # acts as other users


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@root_only
def test_a_lock_that_is_somebody_elses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run/x.lock"
    path.parent.mkdir()
    path.write_text("")
    os.chown(path, 20001, 20001)
    with pytest.raises(NodeError, match="not root's file"), files.flocked(str(path)):
        pass
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NodeError, match="not root's file"), files.flocked(str(path)):
        pass
    path.unlink()
    path.symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic"), files.flocked(str(path)):
        pass
    assert not (path.parent / "elsewhere").exists()
    os.chown(path.parent, 20001, 20001)
    with pytest.raises(NodeError, match="not root's directory"), files.flocked(str(path)):
        pass
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NodeError, match="not root's directory"), files.flocked(str(tmp_path / "link/x.lock")):
        pass


@root_only
def test_the_locks_of_the_root_are_roots_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o755)
    os.close(guard._lock_file(str(run)))
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "root.lock").stat().st_mode) == 0o600
    run.chmod(0o755)
    guard.write_deadline(5, str(run))
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    os.chown(run, 20001, 20001)
    with pytest.raises(guard.RootError, match="not root's directory"):
        guard._lock_file(str(run))


def test_a_holder_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held(path) as pid:
        with pytest.raises(
            NodeError, match=rf"held for 0 seconds by process {pid} \(python3\) of .*, (running|started)"
        ):
            take(path, 0.1)
        os.kill(pid, signal.SIGSTOP)
        while state_of(pid) != "T":
            time.sleep(0.01)
        begun = time.monotonic()
        with pytest.raises(NodeError, match=f"stopped, started .*does not move.*kill -CONT {pid}.*kill -KILL {pid}"):
            take(path, 0.3)
        assert time.monotonic() - begun < 10
    take(path, 5)  # the kernel gives back what a dead process held


def take(path: Path, seconds: float) -> None:
    with files.flocked(str(path), seconds):
        pass


def test_who_waits_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held(path) as pid:
        wait = f"import fcntl; fcntl.flock(open({str(path)!r}), fcntl.LOCK_EX)"
        waiting = subprocess.Popen([sys.executable, "-c", wait])
        with path.open() as stream:
            time.sleep(0.5)
            try:
                assert holders.holder_of(stream.fileno()).startswith(f"process {pid} ")
            finally:
                waiting.kill()
                waiting.wait()


def test_a_child_that_goes_on_with_the_lock_is_found(tmp_path: Path) -> None:
    """/proc/locks names the process that took it, which is gone."""
    path = tmp_path / "x.lock"
    reader, writer = os.pipe()
    if not (first := os.fork()):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (second := os.fork()):
            time.sleep(60)
            os._exit(0)
        os.write(writer, b"%d\n" % second)
        os._exit(0)
    os.waitpid(first, 0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        second = int(stream.readline())
    try:
        with path.open() as stream:
            assert holders.holder_of(stream.fileno()).startswith(f"process {second} ")
    finally:
        os.kill(second, signal.SIGKILL)


@root_only
def test_a_persons_program_that_holds_the_account_databases_is_named(tmp_path: Path) -> None:
    """passwd and chfn are setuid: whoever calls them can stop them while they hold /etc/.pwd.lock."""
    (tmp_path / "etc").mkdir()
    with held(tmp_path / "etc/.pwd.lock", "lockf") as pid:
        os.kill(pid, signal.SIGSTOP)
        words = f"databases .* locked by another program: process {pid} .* of root"
        with pytest.raises(NodeError, match=words), files.shadow_lock(str(tmp_path), ("passwd",), seconds=0.2):
            pass
        (tmp_path / "etc/passwd.lock").write_text(f"{pid}\0")
    with files.shadow_lock(str(tmp_path), ("passwd",), seconds=5):
        pass


@root_only
def test_the_real_user_of_a_setuid_program_counts() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setresuid(20001, 0, 0)  # as a program with the setuid bit that 20001 called
        os.write(writer, b"x")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(reader, 1)
        found = holders.describe(child)
        assert found is not None
        assert found.user == "uid 20001"
        assert abs(found.since - time.time()) < 60
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_what_a_person_calls_their_process_does_not_reach_the_screen_as_it_is(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        Path("/proc/self/comm").write_bytes(b"\x1b[2J) T (\n")
        (tmp_path / "ready").touch()
        time.sleep(60)
        os._exit(0)
    try:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        found = holders.describe(child)
        assert found is not None
        assert str(found).isprintable()
        assert str(found).isascii()
        assert not found.stopped
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_frozen_cgroup_is_seen(tmp_path: Path) -> None:
    proc, cgroups = tmp_path / "proc/7", tmp_path / "cgroup/user.slice"
    proc.mkdir(parents=True)
    cgroups.mkdir(parents=True)
    (proc / "stat").write_text("7 (passwd) S " + " ".join(["0"] * 40))
    (proc / "status").write_text("Name:\tpasswd\nUid:\t0\t0\t0\t0\n")
    (proc / "cgroup").write_text("4:cpu:/\n0::/user.slice\n")
    (cgroups / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    found = holders.describe(7, str(tmp_path / "proc"), str(tmp_path / "cgroup"))
    assert found is not None
    assert "frozen by its cgroup" in str(found)
    assert "does not move" in str(found)
    assert holders.describe(8, str(tmp_path / "proc")) is None


def test_nobody_waits_for_ever_for_one_who_closes_the_root(tmp_path: Path) -> None:
    lock = guard._lock_file(str(tmp_path))
    with held(tmp_path / "root.lock") as pid:
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(guard.RootError, match=f"root.lock has been held .* by process {pid} "):
            guard._wait(lock, str(tmp_path), 0.2)
    os.close(lock)

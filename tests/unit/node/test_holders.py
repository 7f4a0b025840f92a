"""Who holds a lock: found and named, whatever they call themselves."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import holders

from tests.support.lock_holder import held
from tests.support.unfinished import first_thread_ended

root_only = pytest.mark.root  # acts as other users


def test_who_waits_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held(path) as pid:
        wait = f"import fcntl; fcntl.flock(open({str(path)!r}), fcntl.LOCK_EX)"
        waiting = subprocess.Popen([sys.executable, "-c", wait])
        with path.open() as stream:
            time.sleep(0.5)  # until the other one waits for the lock
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
            time.sleep(60)  # it holds the lock until it is killed
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
def test_a_process_without_its_first_thread_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with path.open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with first_thread_ended(31153, theirs.fileno()) as process:
            theirs.close()
            with path.open() as stream:
                found = holders.holder_of(stream.fileno())
    assert found.startswith(f"process {process.pid} (python3) of uid 31153, ")


@root_only
def test_the_real_user_of_a_setuid_program_counts() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.setresuid(20001, 0, 0)  # as a program with the setuid bit that 20001 called
        os.write(writer, b"x")
        time.sleep(60)  # it is looked at until it is killed
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
        time.sleep(60)  # it is looked at until it is killed
        os._exit(0)
    try:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)  # until the child is ready
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

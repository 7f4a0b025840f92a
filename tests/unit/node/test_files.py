"""Files, locks, mounts and open files: nobody's lock is taken, no link is written through, holders are named."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files, holders, renaming
from ansible_collections.gpuadmin.node.plugins.module_utils.attributes import attribute_names
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import (
    below,
    mounted_on,
    nearest,
    network_filesystem,
    parse_mountinfo,
    read_mountinfo,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.open_files import places
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard

from tests.support.failing import raising
from tests.support.lock_holder import held
from tests.support.unfinished import first_thread_ended


def test_a_file_is_not_written_through_a_link_that_has_just_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_text("not ours")
    (tmp_path / ".file.gpuadmin-new").symlink_to("other")
    monkeypatch.setattr(files.os, "unlink", lambda path: None)  # it has been made again since
    with pytest.raises(FileExistsError):
        files.write_atomic(str(tmp_path / "file"), b"ours", mode=0o600)
    assert (tmp_path / "other").read_text() == "not ours"


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


def test_a_holder_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held(path) as pid:
        with pytest.raises(
            NodeError, match=rf"held for 0 seconds by process {pid} \(python3\) of .*, (running|started)"
        ):
            take(path, 0.1)
        os.kill(pid, signal.SIGSTOP)
        while state_of(pid) != "T":
            time.sleep(0.01)  # a signal has its effect in a moment
        begun = time.monotonic()
        with pytest.raises(NodeError, match=f"stopped, started .*does not move.*kill -CONT {pid}.*kill -KILL {pid}"):
            take(path, 0.3)
        assert time.monotonic() - begun < 60, "a stopped process holds it for ever"
    take(path, 5)  # the kernel gives back what a dead process held


def take(path: Path, seconds: float) -> None:
    with files.flocked(str(path), seconds):
        pass


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


class Power:
    """What of the calls that put something on the disk, or give it a name, was made, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        rename, fsync = os.rename, os.fsync

        def renamed(source: str, target: str) -> None:
            self.calls.append(f"rename {Path(target).name}")
            rename(source, target)

        def synced(handle: int) -> None:
            kind = "directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"
            self.calls.append(f"fsync {kind}")
            fsync(handle)

        monkeypatch.setattr(files.os, "rename", renamed)
        monkeypatch.setattr(files.os, "fsync", synced)


@pytest.mark.root
def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the name is, when the call returns: a power cut leaves the old file or the new one."""
    power = Power(monkeypatch)
    files.write_atomic(str(tmp_path / "file"), b"new", mode=0o600)
    assert power.calls == ["fsync file", "rename file", "fsync directory"]
    files.make_directory(str(tmp_path / "made"), 0o711)
    assert power.calls[3:] == ["fsync directory"]


def test_what_replaces_a_file_has_its_owner_and_mode(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    files.write_atomic(str(tmp_path / "file"), b"new", mode=0o600)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    files.write_atomic(str(tmp_path / "other"), b"new", mode=0o600)
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o600


def test_no_content_is_read_through_a_link_or_from_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    assert files.read_bytes(str(tmp_path / "file")) == b"content"
    assert files.read_bytes(str(tmp_path / "none")) is None
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(NodeError, match="is a symbolic link"):
        files.read_bytes(str(tmp_path / "link"))
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(NodeError, match="is not a regular file"):
            files.read_bytes(str(tmp_path / name))


def test_a_sync_that_fails_is_an_error(tmp_path: Path) -> None:
    """What is deleted after it would be the only copy."""
    with pytest.raises(NodeError, match="is not known to be on disk"):
        files.sync_filesystem(str(tmp_path / "none"))


def test_a_directory_is_nobody_elses_before_it_has_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    monkeypatch.setattr(files.os, "chown", lambda path, *_ids, **_more: modes.append(os.lstat(path).st_mode & 0o777))
    before = os.umask(0)
    try:
        files.make_directory(str(tmp_path / "made"), 0o755)
    finally:
        os.umask(before)
    assert modes == [0o700]


def test_a_lock_of_the_shadow_tools_is_taken_from_the_dead_alone(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    lock = tmp_path / "etc/passwd.lock"
    lock.write_text(f"{os.getppid()}\0")
    with pytest.raises(NodeError, match=f"passwd.lock is held by process {os.getppid()}"):
        take_shadow(tmp_path, 0.2)
    assert lock.exists()
    for stale in ("", "0", f"{2**22 + 1}\0"):  # a power cut left it empty; a number that no process has
        lock.write_text(stale)
        take_shadow(tmp_path, 5)
        assert not lock.exists()


def take_shadow(root: Path, seconds: float) -> None:
    with files.shadow_lock(str(root), ("passwd",), seconds=seconds):
        pass


def test_names_without_those_of_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listxattr", lambda _: ["user.b", "security.selinux", "security.capability", "user.a"])
    assert attribute_names(str(tmp_path)) == ["security.capability", "user.a", "user.b"]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EPERM])
def test_a_file_system_without_attributes_has_none(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "listxattr", raising(OSError(number, os.strerror(number))))
    assert attribute_names("x") == []


def test_attributes_that_cannot_be_read_are_not_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listxattr", raising(OSError(errno.EIO, "input/output error")))
    with pytest.raises(OSError, match="input/output error"):
        attribute_names("x")


def test_who_waits_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held(path) as pid:
        wait = f"import fcntl; fcntl.flock(open({str(path)!r}), fcntl.LOCK_EX)"
        waiting = subprocess.Popen([sys.executable, "-c", wait])
        with path.open() as stream:
            time.sleep(0.5)  # until the other one waits for the lock
            try:
                assert holders.name_lock_holder(stream.fileno()).startswith(f"process {pid} ")
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
            assert holders.name_lock_holder(stream.fileno()).startswith(f"process {second} ")
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
                found = holders.name_lock_holder(stream.fileno())
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


TEXT = """\
20 1 0:20 /roots/old / rw,noatime - btrfs /dev/vda1 rw,subvolid=256,subvol=/roots/old
21 20 0:21 /roots/one / ro shared:1 - btrfs /dev/vda2 rw,space_cache=v2,subvolid=300,subvol=/roots/one
22 20 0:22 / /with\\040space rw - ext4 /dev/disk\\0401 rw,subvolid=7
23 20 0:23 / /srv rw - nfs4 10.0.0.1:/srv rw
24 20 0:24 / /dev/x rw - btrfs /dev/vda3 rw
not a line of mountinfo
"""


def test_what_is_mounted() -> None:
    table = parse_mountinfo(TEXT)
    root = mounted_on("/", table)
    assert root is not None
    assert (root.source, root.root, root.fstype, root.subvolume_id) == ("/dev/vda2", "/roots/one", "btrfs", 300)
    assert mounted_on("/with", table) is None
    spaced = mounted_on("/with space", table)
    assert spaced is not None
    assert (spaced.source, spaced.subvolume_id) == ("/dev/disk 1", None)
    assert [one.point for one in below("/with space", table)] == ["/with space"]
    found = nearest("/srv/homes", table)
    assert found is not None
    assert found.fstype == "nfs4"
    unnamed = mounted_on("/dev/x", table)
    assert unnamed is not None
    assert unnamed.subvolume_id is None


def test_network_file_systems() -> None:
    assert network_filesystem("/srv/nothing", TEXT) == "nfs4"
    assert network_filesystem("/etc", TEXT) is None


@pytest.mark.parametrize("process", ["self", "thread-self"])
def test_this_machine(process: str) -> None:
    assert mounted_on("/", parse_mountinfo(read_mountinfo(process))) is not None


#: Threads: one that shares the files of the first, and one that has its own.
APART = """
import ctypes, threading, time
def apart():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    print(threading.get_native_id(), flush=True)
    time.sleep(60)
threading.Thread(target=time.sleep, args=(60,)).start()
threading.Thread(target=apart).start()
"""


def listed(directory: str) -> set[str]:
    return {one.name for one in Path(directory).iterdir()}


def test_of_an_ordinary_process_it_is_the_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert places(f"/proc/{process.pid}") == [f"/proc/{process.pid}"]
        process.kill()
    with pytest.raises(FileNotFoundError):
        places(f"/proc/{process.pid}")


@pytest.mark.root
@pytest.mark.holds("what a thread has opened in files of its own is held as well")
def test_a_thread_with_files_of_its_own_is_another_place() -> None:
    with subprocess.Popen([sys.executable, "-c", APART], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        thread = process.stdout.readline().strip()
        base = f"/proc/{process.pid}"
        assert len(listed(f"{base}/task")) == 3
        assert places(base) == [base, f"{base}/task/{thread}"], "what shares the first one's is not read again"
        process.kill()


@pytest.mark.root
@pytest.mark.holds("who ended their first thread alone still holds what the others have open")
def test_a_process_without_its_first_thread_has_its_others(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as stream, first_thread_ended(31154, stream.fileno()) as process:
        base = f"/proc/{process.pid}"
        (thread,) = listed(f"{base}/task") - {str(process.pid)}
        assert listed(f"{base}/fd") == set()
        assert f"{base}/task/{thread}" in places(base)


def test_a_name_that_is_taken_is_not_given(tmp_path: Path) -> None:
    for name in ("new", "taken"):
        (tmp_path / name).mkdir()
    top = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(NodeError, match="has just appeared"):
        renaming.rename_new("new", top, "taken", top)
    with pytest.raises(FileNotFoundError):
        renaming.rename_new("none", top, "free", top)
    renaming.rename_new("new", top, "free", top)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["free", "taken"]
    os.close(top)


def by_files(directory: Path) -> None:
    with files.flocked(f"{directory}/root.lock", 0.0):
        pass


def by_guard(directory: Path) -> None:
    lock = guard._lock_file(str(directory))
    try:
        guard._wait(lock, str(directory), 0.0)
    finally:
        os.close(lock)


def refused(directory: Path) -> str:
    """The words with which both refuse a lock in a directory."""
    found = []
    for lock in (by_files, by_guard):
        with pytest.raises((NodeError, guard.RootError)) as error:
            lock(directory)
        found.append(str(error.value))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("lock", [by_files, by_guard])
def test_a_lock_is_its_owners_alone(tmp_path: Path, lock: Callable[[Path], None]) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    for _ in range(2):
        directory.chmod(0o755)
        lock(directory)
        assert [path.stat().st_mode & 0o777 for path in (directory, directory / "root.lock")] == [0o700, 0o600]
        if lock is by_files:
            (directory / "root.lock").chmod(0o644)  # as an older version made it


@pytest.mark.parametrize("lock", [by_files, by_guard])
def test_a_link_is_no_lock(tmp_path: Path, lock: Callable[[Path], None]) -> None:
    (tmp_path / "root.lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        lock(tmp_path)
    assert not (tmp_path / "other").exists()


def test_both_refuse_a_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert refused(tmp_path) == f"{tmp_path} is not root's directory; no lock is kept there"


def test_both_name_who_holds_the_lock(tmp_path: Path) -> None:
    with files.flocked(f"{tmp_path}/root.lock"):
        words = refused(tmp_path)
    assert words.startswith(f"{tmp_path}/root.lock has been held for 0 seconds by ")
    assert str(os.getpid()) in words

"""Files and locks of root: nobody else's lock is taken, and no link is written through."""

import os
import signal
import stat
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.support.lock_holder import held


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


def test_a_lock_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "run/x.lock"
    with files.flocked(str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    # as an older version made them
    path.chmod(0o644)
    path.parent.chmod(0o755)
    with files.flocked(str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


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

"""Files and locks of root: nobody else's lock is taken, and no link is written through."""

from __future__ import annotations

import os
import signal
import stat
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.unit.node.holding import held


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
        assert time.monotonic() - begun < 10
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

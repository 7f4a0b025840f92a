"""Whose slice a process is in."""

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import cgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.cgroups import owner_of

from tests.support.slices import own_slice


def test_owners(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text("0::/user.slice/user-20000.slice/user@20000.service/docker-x.scope\n")
    assert owner_of(7, str(tmp_path)) == 20000
    (tmp_path / "7/cgroup").write_text("0::/system.slice/ssh.service\n")
    assert owner_of(7, str(tmp_path)) == 0
    assert owner_of(8, str(tmp_path)) is None
    v1 = "12:memory:/user.slice/user-20001.slice\n1:name=systemd:/user.slice/user-20000.slice/s\n0::/\n"
    (tmp_path / "7/cgroup").write_text(v1)
    assert owner_of(7, str(tmp_path)) == 20000


@pytest.mark.root
@pytest.mark.holds("whoever runs this does not kill themselves")
def test_all_that_runs_in_a_slice_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with own_slice(20000) as slice_:
        mount = str(slice_.parents[1])
        process = subprocess.Popen(["sleep", "1000"])
        (slice_ / "cgroup.procs").write_text(str(process.pid))
        with monkeypatch.context() as patch:
            patch.setattr(cgroups, "owner_of", lambda pid: 20000 if pid == os.getpid() else 0)
            assert not cgroups.kill(20000, mount)
        assert process.poll() is None
        assert cgroups.kill(20000, mount)
        assert process.wait(10) == -9


def test_where_a_kernel_has_no_such_file_nothing_is_killed(tmp_path: Path) -> None:
    (tmp_path / "user.slice/user-20000.slice").mkdir(parents=True)
    assert not cgroups.kill(20000, str(tmp_path))

"""Whose slice a process is in."""

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import cgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.cgroups import find_owner

from tests.support.slices import own_slice


@pytest.mark.root
def test_owners(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text("0::/user.slice/user-20000.slice/user@20000.service/docker-x.scope\n")
    assert find_owner(7, str(tmp_path)) == 20000
    (tmp_path / "7/cgroup").write_text("0::/system.slice/ssh.service\n")
    assert find_owner(7, str(tmp_path)) == 0
    assert find_owner(8, str(tmp_path)) is None
    v1 = "12:memory:/user.slice/user-20001.slice\n1:name=systemd:/user.slice/user-20000.slice/s\n0::/\n"
    (tmp_path / "7/cgroup").write_text(v1)
    assert find_owner(7, str(tmp_path)) == 20000


@pytest.mark.parametrize("separator", ["\v", "\f", "\r", "\x1c", "\x85", "\u2028"])
def test_nobody_is_root_by_what_they_call_their_cgroup(separator: str) -> None:
    forged = f"1:name=systemd:/user.slice/user-20000.slice/x{separator}0::/user.slice/user-0.slice\n0::/\n"
    assert cgroups.slice_owner(cgroups.cgroup_path(forged) or "/") == 20000


@pytest.mark.root
def test_all_that_runs_in_a_slice_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with own_slice(20000) as slice_:
        mount = str(slice_.parents[1])
        process = subprocess.Popen(["sleep", "1000"])
        (slice_ / "cgroup.procs").write_text(str(process.pid))
        with monkeypatch.context() as patch:
            patch.setattr(cgroups, "find_owner", lambda pid: 20000 if pid == os.getpid() else 0)
            assert not cgroups.kill(20000, mount)
        assert process.poll() is None
        assert cgroups.kill(20000, mount)
        assert process.wait(10) == -9


def test_where_a_kernel_has_no_such_file_nothing_is_killed(tmp_path: Path) -> None:
    (tmp_path / "user.slice/user-20000.slice").mkdir(parents=True)
    assert not cgroups.kill(20000, str(tmp_path))


def test_where_a_unit_s_cgroup_is(tmp_path: Path) -> None:
    (tmp_path / "user.slice/user-20000.slice").mkdir(parents=True)
    (tmp_path / "system.slice/ssh.service").mkdir(parents=True)
    bases = (str(tmp_path / "none"), str(tmp_path))
    assert cgroups.find_cgroup("user-20000.slice", bases) == str(tmp_path / "user.slice/user-20000.slice")
    assert cgroups.find_cgroup("ssh.service", bases) == str(tmp_path / "system.slice/ssh.service")
    assert cgroups.find_cgroup("cron.service", bases) is None
    instance = tmp_path / "system.slice/system-ssh.slice/ssh@1-[::1]:22.service"
    instance.mkdir(parents=True)
    assert cgroups.find_cgroup("ssh@1-[::1]:22.service", bases) == str(instance)
    assert cgroups.find_cgroup("ssh@2.service", bases) is None


@pytest.mark.parametrize(
    ("events", "there"), [("populated 0\nfrozen 0\n", False), ("populated 1\nfrozen 0\n", True), (None, True)]
)
def test_whether_somebody_is_in_a_cgroup(tmp_path: Path, events: str | None, there: bool) -> None:
    if events is not None:
        (tmp_path / "cgroup.events").write_text(events)
    assert cgroups.populated(str(tmp_path)) is there


def test_controllers_are_those_of_cgroup_v2(tmp_path: Path) -> None:
    bases = [str(tmp_path / "unified"), str(tmp_path)]
    assert cgroups.controllers(bases) == set()
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    assert cgroups.controllers(bases) == {"cpuset", "cpu", "memory"}
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("\n")  # beside v1, which has them all
    assert cgroups.controllers(bases) == set()

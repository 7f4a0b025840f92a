"""Whose slice a process is in."""

from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.cgroups import owner_of


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

"""Homes of a storage host that is away: who holds them, and letting them go."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import operation
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import former

TABLE = """22 1 0:20 / / rw - ext4 /dev/vda1 rw
30 22 0:40 / /home rw shared:1 - autofs systemd-1 rw
31 30 0:52 / /home rw shared:2 - nfs4 10.0.0.1:/srv/storage/homes rw,vers=4.2
32 22 0:53 / /shared/sets rw - nfs4 10.0.0.1:/srv/storage/shared/sets rw
33 22 0:54 / /data rw - nfs4 10.0.0.1:/export/data rw
34 22 0:55 / /other rw - nfs4 10.0.0.10:/srv/storage/homes rw
35 22 0:56 / /six rw - nfs4 [fd00::1]:/srv/storage/homes rw
36 22 0:57 / /tmp/minji/x rw - fuse.nfs4 10.0.0.1:/srv/storage/homes rw,user_id=20000,group_id=0
37 22 0:58 / /light rw - fuse.mergerfs 10.0.0.1:/srv/storage/homes rw,user_id=0,group_id=0
"""


@pytest.mark.parametrize(
    ("server", "points"), [("10.0.0.1", ["/shared/sets", "/light", "/home"]), ("fd00::1", ["/six"]), ("10.0.0.2", [])]
)
def test_what_is_mounted_from_there(server: str, points: list[str]) -> None:
    assert former.find_mounts(server, "/srv/storage", TABLE) == points


def test_who_has_files_there(tmp_path: Path) -> None:
    open_file = (tmp_path / "thesis").open("w")
    with open_file, subprocess.Popen(["sleep", "60"], cwd=tmp_path) as child:
        try:
            (held,) = former.find_holders([str(tmp_path)]).values()
            assert f"sleep ({child.pid})" in held
            assert any(f"({os.getpid()})" in one for one in held)
        finally:
            child.kill()
    assert former.find_holders([]) == {}


def test_whoever_has_them_in_a_container_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a subordinate uid there: its cgroup tells whose it is. One that has ended meanwhile is nobody's."""
    monkeypatch.setattr(former, "find_name", {20000: "minji"}.get)
    for pid, cgroup in (("7", "0::/user.slice/user-20000.slice/user@20000.service/c\n"), ("8", "")):
        process = tmp_path / "proc" / pid
        (process / "fd").mkdir(parents=True)
        (process / "task/7").mkdir(parents=True)
        (process / "comm").write_text("python3\n")
        (process / "cwd").symlink_to("/home/minji")
        (process / "fd/3").symlink_to("/dev/null")
        if cgroup:
            (process / "cgroup").write_text(cgroup)
    assert former.find_holders(["/home"], str(tmp_path / "proc")) == {"minji": ["python3 (7)"]}
    monkeypatch.setattr(former, "find_name", {}.get)
    assert [*former.find_holders(["/home"], str(tmp_path / "proc"))] == ["uid 20000"]


@pytest.mark.root
@pytest.mark.holds("homes of a server that serves are not taken away", "a check unmounts nothing")
def test_they_are_let_go_where_nobody_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "10.0.0.1:/srv/storage/homes", tmp_path], check=True)
    try:
        monkeypatch.setattr(former, "answers", lambda server: True)
        with pytest.raises(NodeError, match="still serves NFS"):
            former.let_go("10.0.0.1", "/srv/storage")
        monkeypatch.setattr(former, "answers", lambda server: False)
        order = {"server": "10.0.0.1", "above": "/srv/storage"}
        found = operation.run("former_homes", order, check=True)["report"]
        assert found == {"former_homes": {"answers": False, "mounts": [str(tmp_path)], "held": {}}}
        assert os.path.ismount(tmp_path)
        with (tmp_path / "open").open("w"):  # who has a file open keeps nobody else from the new homes
            former.let_go("10.0.0.1", "/srv/storage")
        assert not os.path.ismount(tmp_path)
        monkeypatch.setattr(former, "answers", lambda server: True)
        former.let_go("10.0.0.1", "/srv/storage")
    finally:
        subprocess.run(["umount", "-q", "-l", tmp_path], check=False)


@pytest.mark.root
def test_what_is_not_let_go_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former, "read_mountinfo", lambda: TABLE.replace("/six", "/nowhere/at-all"))
    monkeypatch.setattr(former, "answers", lambda server: False)
    with pytest.raises(NodeError, match="/nowhere/at-all is not unmounted: No such file"):
        former.let_go("fd00::1", "/srv/storage")


def test_whether_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(former, "PORT", server.getsockname()[1])
        assert former.answers("127.0.0.1")
    assert not former.answers("127.0.0.1")

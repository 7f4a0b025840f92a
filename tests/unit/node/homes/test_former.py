"""Homes of a storage host that is away: who holds them, and letting them go."""

from __future__ import annotations

import os
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
"""


@pytest.mark.parametrize(
    ("server", "points"), [("10.0.0.1", ["/shared/sets", "/home"]), ("fd00::1", ["/six"]), ("10.0.0.2", [])]
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


def test_whether_somebody_listens() -> None:
    assert former.answers("127.255.255.254") in (True, False)

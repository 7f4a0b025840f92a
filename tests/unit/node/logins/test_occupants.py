"""Who is on a node, and whose processes hold a GPU."""

import os
import re
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import occupants

from tests.support.unfinished import first_thread_ended


def test_who_is_on_a_node(tmp_path: Path) -> None:
    listed = (
        "5 20001 minji - 812 user pts/0 no -\n6 20001 minji - 813 manager - no -\n7 20002 jiho - 9 manager - no -\n"
        "c1 900 gpuadmin - 4 user - no -\n8 20003 sora seat0\n"
    )
    assert occupants.people(20000, 49999, listed) == ["minji", "sora"]
    process = tmp_path / "42"
    (process / "fd").mkdir(parents=True)
    (process / "fd/3").symlink_to("/dev/nvidia3")
    (process / "cgroup").write_text("0::/user.slice/user-20007.slice/user@20007.service/user.slice/docker-1.scope\n")
    uid = process.stat().st_uid
    assert occupants.gpu_users(uid, str(tmp_path)) == ["uid 20007"]
    assert occupants.gpu_users(uid + 1, str(tmp_path)) == []
    (process / "fd/3").unlink()
    (process / "fd/3").symlink_to("/dev/nvidiactl")
    assert occupants.gpu_users(uid, str(tmp_path)) == []


def test_who_is_there_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that is not answered is not taken for "nobody"."""
    loginctl = tmp_path / "loginctl"
    loginctl.write_text("#!/bin/sh\necho 'Connection refused' >&2\nexit 1\n")
    loginctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeError, match="not known who is logged in: Connection refused"):
        occupants.people(20000, 49999)


@pytest.mark.root
def test_who_closes_files_all_the_time_does_not_hide_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file of a process is gone when it is looked at; the process has others."""
    process = tmp_path / "41"
    (process / "fd").mkdir(parents=True)
    (process / "fd/1").symlink_to("/dev/null")
    (process / "fd/2").symlink_to("/dev/nvidia0")
    (process / "cgroup").write_text("0::/user.slice/user-48211.slice/session-1.scope\n")
    os.chown(process, 48211, 48211)
    real = os.readlink

    def readlink(path: str) -> str:
        if path.endswith("/fd/1"):
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert occupants.gpu_users(1000, str(tmp_path)) == ["uid 48211"]


@pytest.mark.root
def test_a_process_without_its_first_thread_holds_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel lists of the process itself is empty."""
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(occupants, "GPU_DEVICE", re.compile(re.escape(str(device))))
    with device.open() as card, first_thread_ended(31152, card.fileno()):
        assert occupants.gpu_users(31152) == ["uid 31152"]

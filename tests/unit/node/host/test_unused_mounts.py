"""What the site does not mount any more: unmounted when nobody uses it, and nobody else's mount is touched."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.host.unused_mounts import Released, release

UNIT = "# Managed by gpuadmin{}.\n[Mount]\nWhat=nas2:/data\nWhere=/data\n"
MOUNTED = "1 0 0:1 / /data rw - autofs systemd-1 rw\n2 0 0:2 / /data rw - nfs4 nas2:/data rw\n"
WAITS = MOUNTED.splitlines()[0] + "\n"


class Host:
    def __init__(self, directory: Path, mountinfo: str, mark: str = " (mounts)", busy: bool = False) -> None:
        self.directory, self.mountinfo, self.busy = directory, mountinfo, busy
        self.ran: list[str] = []
        (directory / "data.mount").write_text(UNIT.format(mark))
        (directory / "other.mount").symlink_to("data.mount")

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.ran.append(" ".join(command))
        return subprocess.CompletedProcess(command, int(self.busy), "", "")

    def release(self, wanted: dict[str, str], check: bool = False) -> Released:
        return release(
            wanted, check=check, directory=str(self.directory), run=self.run, mountinfo=lambda: self.mountinfo
        )


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("mountinfo", "done"), [(MOUNTED, ["unmount nas2:/data from /data, unless somebody uses it"]), (WAITS, [])]
)
def test_what_is_not_wanted_goes(tmp_path: Path, mountinfo: str, done: list[str], check: bool) -> None:
    host = Host(tmp_path, mountinfo)
    found = host.release({}, check)
    assert found.done == [*done, "/data is mounted no more"]
    assert [Path(path).name for path in found.units] == ["data.mount", "data.automount", "data.automount"]
    ran = ["timeout 90 umount /data"] * len(done) + ["systemctl stop data.automount"]
    assert host.ran == ([] if check else ran)


@pytest.mark.holds("a mount that is in use keeps its units")
def test_what_somebody_uses_stays(tmp_path: Path) -> None:
    found = Host(tmp_path, MOUNTED, busy=True).release({})
    assert (found.done, found.units) == ([], [])
    assert found.notes == ["/data is still mounted from nas2:/data, which somebody uses; the next run tries again"]


def test_another_source_is_let_go_and_keeps_its_units(tmp_path: Path) -> None:
    host = Host(tmp_path, MOUNTED)
    assert host.release({"data": "nas2:/data"}) == Released()
    found = host.release({"data": "nas3:/data"})
    assert (found.done, found.units) == (["unmount nas2:/data from /data, unless somebody uses it"], [])
    assert host.ran == ["timeout 90 umount /data"]


@pytest.mark.holds("only ours is unmounted")
def test_the_homes_and_other_mounts_are_not_touched(tmp_path: Path) -> None:
    host = Host(tmp_path, MOUNTED, mark="")
    assert host.release({}) == Released()
    assert host.ran == []

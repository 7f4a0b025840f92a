"""What people share, held to its size on a real btrfs; ext4 and xfs are in test_user_quotas.py."""

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import qgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import shared_amounts
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import shared
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Kept
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import read_mountinfo

from gpuadmin.common.records.homes import SharedDirectory
from tests.support.people_disk import MINJI, Disk, disk
from tests.support.storage import run

__all__ = ["disk"]
pytestmark = [pytest.mark.btrfs]


@pytest.fixture
def imagenet(disk: Disk) -> SharedDirectory:
    """One that minji's own group has, and of which backups have nothing."""
    (disk.top / "homes").mkdir()
    one = SharedDirectory("imagenet", str(disk.top / "shared/imagenet"), "minji", MINJI, "100M", backup=False)
    assert not shared.converge([one], str(disk.top / "homes"), str(disk.top), read_mountinfo(), check=False).problems
    return one


def test_the_kernel_refuses_more_than_the_size_and_lets_go(disk: Disk, imagenet: SharedDirectory) -> None:
    place = Path(imagenet.path)
    (note,) = shared_amounts.hold([imagenet], check=False).notes
    assert "nothing refuses more than 100 MB: quotas of btrfs are off" in note.replace("100.0", "100")
    disk.keep()
    check = shared_amounts.hold([imagenet], check=True)
    assert shared_amounts.hold([imagenet], check=True) == check
    assert shared_amounts.hold([imagenet], check=False).done == check.done
    assert shared_amounts.hold([imagenet], check=False) == Kept()
    assert disk.write(place / "small", 50)
    assert not disk.write(place / "large", 80)
    (place / "large").unlink()
    run("btrfs", "filesystem", "sync", disk.top)
    freed = shared_amounts.hold([replace(imagenet, size="unlimited")], check=False)
    assert (len(freed.done), freed.problems) == (1, [])
    assert disk.write(place / "large", 80), (disk.free, [*place.iterdir()])


def test_where_nothing_refuses_it_is_said(disk: Disk, imagenet: SharedDirectory) -> None:
    disk.keep()
    among = replace(imagenet, name="papers", path=str(disk.top / "homes/_shared-papers"), backup=True)
    shared.converge([imagenet, among], str(disk.top / "homes"), str(disk.top), read_mountinfo(), check=False)
    (note,) = shared_amounts.hold([among], check=False).notes
    assert "it is among the homes" in note
    assert shared_amounts.hold([replace(among, size="unlimited")], check=False).notes == []
    missing = replace(imagenet, path=f"{imagenet.path}-that-is-not-there")
    assert shared_amounts.hold([missing], check=False) == Kept()


@pytest.mark.holds(
    "a size that the kernel does not have is told", "one directory without its size keeps no other from it"
)
def test_a_size_that_is_not_in_force_is_told(
    disk: Disk, imagenet: SharedDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.keep()
    other = replace(imagenet, name="other", path=f"{disk.top}/shared/other")
    shared.converge([imagenet, other], str(disk.top / "homes"), str(disk.top), read_mountinfo(), check=False)
    monkeypatch.setattr(qgroups, "limit", lambda *_: None)
    problems = shared_amounts.hold([imagenet, other], check=False).problems
    assert [path.partition(":")[0] for path in problems] == [imagenet.path, other.path]

"""Which parts of which file systems are walked: each once, and only those of this host."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import Mount

from gpuadmin.takeover.node.renumbering.trees import select_local

TABLE = (
    ("0:1", Mount("/roots/one", "/", "btrfs", "/dev/sda2")),
    ("0:1", Mount("/state", "/var", "btrfs", "/dev/sda2")),
    ("0:1", Mount("/roots/one/usr/lib", "/var/lib/dpkg", "btrfs", "/dev/sda2")),
    ("8:1", Mount("/", "/data", "ext4", "/dev/sdb1")),
    ("8:1", Mount("/homes", "/home", "ext4", "/dev/sdb1")),
    ("0:2", Mount("/", "/tmp", "tmpfs", "tmpfs")),
    ("0:3", Mount("/", "/tmp", "tmpfs", "tmpfs")),
    ("0:4", Mount("/", "/proc", "proc", "proc")),
    ("0:5", Mount("/", "/nfs", "nfs4", "storage1:/homes")),
    ("0:6", Mount("/", "/mnt", "fuse.sshfs", "x:")),
    ("0:7", Mount("/", "/odd", "orangefs", "x")),
    ("0:9", Mount("/", "/home/minji/x", "fuse", "x", "rw,user_id=1004")),
    ("0:8", Mount("/", "/var/lib/docker/overlay2/x/merged", "overlay", "overlay")),
    ("0:10", Mount("/", "/run/gpuadmin-lab/homes", "ext4", "/dev/sdd1")),
    ("0:11", Mount("/", "/snap/core/1", "squashfs", "/dev/loop1")),
)


@pytest.mark.holds("mounts that a person makes do not fill what a host says")
def test_each_part_once() -> None:
    found = select_local([mount for _, mount in TABLE], [device for device, _ in TABLE])
    assert [tree.point for tree in found.local] == ["/", "/data", "/tmp", "/var"]
    assert found.unknown == ("/odd (orangefs)",)


@pytest.mark.holds("what is mounted twice is changed where it can be")
def test_a_second_mount_that_is_read_only_hides_nothing() -> None:
    """/export comes before /home: by it nothing could change hands."""
    table = [
        Mount("/", "/home", "ext4", "/dev/sdb1", "rw", "rw,relatime"),
        Mount("/", "/export", "ext4", "/dev/sdb1", "rw", "ro,nosuid"),
        Mount("/", "/cdrom", "ext4", "/dev/sdc1", "ro", "rw,relatime"),
    ]
    found = select_local(table, ["8:1", "8:1", "8:2"])
    assert [(tree.point, tree.changeable) for tree in found.local] == [("/cdrom", False), ("/home", True)]


def test_a_root_that_is_an_overlay_is_walked() -> None:
    found = select_local([Mount("/", "/", "overlay", "overlay")], ["0:9"])
    assert [tree.point for tree in found.local] == ["/"]


def test_what_is_not_there_when_a_boot_begins() -> None:
    table = [Mount("/", point, "ext4", point) for point in ("/iscsi", "/by hand", "/asked for", "/data")]
    fstab = (
        "# /dev/x /data ext4 _netdev 0 0\n/dev/a /iscsi/ ext4 defaults,_netdev 0 2\n"
        "/dev/b /by\\040hand ext4 noauto\n/dev/c /asked\\040for ext4 noauto,x-systemd.automount\n/dev/d /data ext4\n"
    )
    found = select_local(table, ["8:1", "8:2", "8:3", "8:4"], fstab)
    assert {tree.point: (tree.late, tree.changeable) for tree in found.local} == {
        "/iscsi": (True, False), "/by hand": (True, False), "/asked for": (False, True), "/data": (False, True),
    }  # fmt: skip

"""What is mounted where, from mountinfo."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import (
    below,
    mounted_on,
    nearest,
    network_filesystem,
    parse_mountinfo,
    read_mountinfo,
)

TEXT = """\
20 1 0:20 /roots/old / rw,noatime - btrfs /dev/vda1 rw,subvolid=256,subvol=/roots/old
21 20 0:21 /roots/one / ro shared:1 - btrfs /dev/vda2 rw,space_cache=v2,subvolid=300,subvol=/roots/one
22 20 0:22 / /with\\040space rw - ext4 /dev/disk\\0401 rw,subvolid=7
23 20 0:23 / /srv rw - nfs4 10.0.0.1:/srv rw
24 20 0:24 / /dev/x rw - btrfs /dev/vda3 rw
not a line of mountinfo
"""


def test_what_is_mounted() -> None:
    table = parse_mountinfo(TEXT)
    root = mounted_on("/", table)
    assert root is not None
    assert (root.source, root.root, root.fstype, root.subvolume_id) == ("/dev/vda2", "/roots/one", "btrfs", 300)
    assert mounted_on("/with", table) is None
    spaced = mounted_on("/with space", table)
    assert spaced is not None
    assert (spaced.source, spaced.subvolume_id) == ("/dev/disk 1", None)
    assert [one.point for one in below("/with space", table)] == ["/with space"]
    found = nearest("/srv/homes", table)
    assert found is not None
    assert found.fstype == "nfs4"
    unnamed = mounted_on("/dev/x", table)
    assert unnamed is not None
    assert unnamed.subvolume_id is None


def test_network_file_systems() -> None:
    assert network_filesystem("/srv/nothing", TEXT) == "nfs4"
    assert network_filesystem("/etc", TEXT) is None


@pytest.mark.parametrize("process", ["self", "thread-self"])
def test_this_machine(process: str) -> None:
    assert mounted_on("/", parse_mountinfo(read_mountinfo(process))) is not None

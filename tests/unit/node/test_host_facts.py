"""What a host says of itself."""

from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import parse_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.operations.host_facts import look_at

MOUNTS = """\
22 1 0:20 / / rw - btrfs /dev/vda2 rw
30 22 0:40 / /home rw - autofs systemd-1 rw
31 30 0:41 / /home rw - nfs4 10.77.0.10:/srv/storage/homes rw
"""


def test_look_at_does_not_look_into_mounts() -> None:
    seen = look_at("/home", parse_mountinfo(MOUNTS))
    assert seen == {
        "mounts": [
            {"source": "systemd-1", "fstype": "autofs"},
            {"source": "10.77.0.10:/srv/storage/homes", "fstype": "nfs4"},
        ],
        "fstype": "nfs4",
        "entries": [],
    }


def test_look_at_what_is_not_there_yet() -> None:
    seen = look_at("/local/.docker", parse_mountinfo(MOUNTS))
    assert (seen["mounts"], seen["fstype"], seen["entries"]) == ([], "btrfs", [])

"""Mounts and their options."""

from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import mounting

from tests.unit.node.host_settings.conftest import Host

MOUNTS = r"""22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro
23 22 0:5 / /proc rw - proc proc rw
24 22 0:40 /home /home rw,nosuid - nfs4 nas:/home rw,vers=4.2,hard,timeo=600,clientaddr=10.0.0.2,addr=10.0.0.1
25 22 0:41 / /run/user/20000 rw - tmpfs tmpfs rw
26 22 0:42 / /mnt/a\040b\012c ro - xfs /dev/sdb1 ro
"""


def test_what_is_mounted_and_what_fstab_says(host: Host) -> None:
    place = host({"etc/fstab": "nas:/home /home nfs4 hard,nosuid 0 0\n# x\n"})
    assert mounting.mounts(place, MOUNTS) == {
        "/": "ext4\nerrors=remount-ro\nrelatime\nrw",
        "/home": "nfs4\nnas:/home\nhard\nnosuid\nrw\ntimeo=600\nvers=4.2",
        "/mnt/a b\nc": "xfs\nro",
        "fstab /home": "nas:/home\nnfs4\nhard\nnosuid",
    }

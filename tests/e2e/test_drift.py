"""What somebody changed by hand, on a host: drift says who is root by it, and what does not work any more."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.lab_cluster import Cluster

pytestmark = pytest.mark.lab

OPEN, CLOSED = "btrfs property set -ts / ro false", "btrfs property set -ts / ro true"
#: What is done, how it is undone, and the key of the finding; those by which somebody is root first.
FAULTS = {
    "minji in group sudo": ("gpasswd -a minji sudo", "gpasswd -d minji sudo"),
    "sudo for minji in /etc/sudoers.d/x": (
        'echo "minji ALL=(ALL) NOPASSWD: ALL" > /etc/sudoers.d/x && chmod 440 /etc/sudoers.d/x', "rm /etc/sudoers.d/x",
    ),
    "uid 0: toor": ('cp -a /etc/passwd /root/passwd; echo "toor:x:0:0::/:/bin/sh" >> /etc/passwd',
                    "mv /root/passwd /etc/passwd"),
    "/usr/local/bin/mybash": ("install -m 4755 /bin/bash /usr/local/bin/mybash", "rm /usr/local/bin/mybash"),
    "/usr/bin/find": ("chmod u+s /usr/bin/find", "chmod u-s /usr/bin/find"),
    "/etc/nsswitch.conf": ("chmod 666 /etc/nsswitch.conf", "chmod 644 /etc/nsswitch.conf"),
}  # fmt: skip
BROKEN = {
    "/usr/bin/newuidmap": ("chmod u-s /usr/bin/newuidmap", "chmod u+s /usr/bin/newuidmap"),
    "/tmp": ("chmod 755 /tmp", "chmod 1777 /tmp"),
    "sshd denyusers": (
        "echo DenyUsers nobody > /etc/ssh/sshd_config.d/99-x.conf",
        "rm /etc/ssh/sshd_config.d/99-x.conf",
    ),
    "sshd usedns": ("echo UseDNS yes > /etc/ssh/sshd_config.d/98-x.conf", "rm /etc/ssh/sshd_config.d/98-x.conf"),
}
#: Nothing of a person's: the run would change it.
NOT_KEPT = (
    "systemctl stop gpuadmin-disk-room.timer gpuadmin-disk-room.service; btrfs qgroup limit none 1/6174 /local",
    "systemctl start gpuadmin-disk-room.timer",
)


@contextmanager
def done_by_hand(cluster: Cluster, host: str) -> Iterator[None]:
    changes = [*FAULTS.values(), *BROKEN.values(), NOT_KEPT]
    cluster.admin(host, " && ".join([OPEN, *(do for do, _ in changes)]))
    try:
        yield
    finally:
        cluster.admin(host, "; ".join([*(undo for _, undo in reversed(changes)), CLOSED]))


def test_drift_says_who_became_root_or_could(minji: Cluster) -> None:
    before = minji.gpuadmin("drift")["result"]
    assert (before["differing"], before["privileges"]["found"]) == ([], []), "what gpuadmin set up is as it should be"
    with done_by_hand(minji, "node1"):
        document = minji.gpuadmin("drift", code=6)
    found = document["result"]
    assert "is kept for root" in str(document["hosts"]["node1"]["changed"])
    assert found["differing"] == ["node1", "node2"], "of two hosts nobody knows whose sshd is right"
    ranks = {one["key"]: one["rank"] for one in found["privileges"]["found"]}
    assert ranks == {**dict.fromkeys(FAULTS, "root"), **dict.fromkeys((*BROKEN, "/"), "differs")}
    order = [one["rank"] for one in found["privileges"]["found"]]
    assert order == sorted(order, reverse=True), "who is root comes first"
    assert found["privileges"]["unknown"] == {}

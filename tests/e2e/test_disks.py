"""Somebody fills a disk to the last byte ("0 bytes left, not even tab completion"): root and others go on."""

import pytest

from tests.support.lab_cluster import Cluster

pytestmark = pytest.mark.lab
NODE, STORAGE = "node1", "storage1"
#: Until nothing fits, not even the smallest.
FILL = """n=0
for size in 1G 100M 10M 1M 64K 4K; do while fallocate -l $size full-$((++n)) 2>/dev/null; do :; done; done
while echo x 2>/dev/null >small-$((++n)); do :; done
echo x >one-more"""
FREE = "df --output=avail -B1 {} | tail -1"


def free(cluster: Cluster, host: str, path: str) -> int:
    return int(cluster.admin(host, FREE.format(path)))


def test_people_who_have_filled_a_disk_stop_nobody_else(minji: Cluster) -> None:
    minji.add("jiho")
    minji.admin(NODE, "chmod 1777 /local")
    filled = minji.ssh("minji", NODE, f"mkdir /local/minji && cd /local/minji && {FILL}")
    assert "Disk quota exceeded" in filled.stderr
    assert free(minji, NODE, "/local") > 100 << 20
    # root logs in, the shell completes words, logs are written, homes go on
    assert minji.admin(NODE, "bash -ic 'compgen -c systemct' 2>/dev/null").split()[0].startswith("systemct")
    minji.admin(NODE, "dd if=/dev/urandom of=/var/tmp/log bs=1M count=20 conv=fsync status=none; rm /var/tmp/log")
    assert minji.person("jiho", NODE, "echo works >~/file; cat ~/file").strip() == "works"
    said = minji.gpuadmin("diagnose", "jiho", code=6)["result"]
    assert "the disk of /local is full" in str(said)
    assert "/local" in minji.ssh("jiho", NODE, "gpuadmin-me check").stdout

    # and deletes what is in the way, where it is
    minji.admin(NODE, "rm -r /local/minji; sync")
    minji.wait(lambda: minji.ssh("jiho", NODE, "dd if=/dev/zero of=/local/x bs=1M count=50 status=none && echo"))

    # the same with homes: the storage host has what it takes to back them up and to wipe them
    minji.person("minji", NODE, "touch thesis")
    # mergerfs, which is NFS here, lets nobody fill what has less than 4 GB: on the storage host, as its server would
    fill = f"cd /srv/storage/homes/minji && mkdir all && cd all && {FILL}"
    # its last write fails, which is what is looked for
    script = f"setpriv --reuid=minji --regid=minji --clear-groups bash -c '{fill}' 2>&1 || true"
    assert "Disk quota exceeded" in minji.admin(STORAGE, script)
    assert free(minji, STORAGE, "/srv/storage") > 100 << 20
    minji.admin(STORAGE, "rm -r /srv/storage/homes/minji/all; sync")
    minji.wait(lambda: minji.ssh("jiho", NODE, "echo x >file && echo"))

    # what keeps room comes back by itself, and goes when the site does not want it any more
    quotas = "btrfs qgroup show --raw -r /local"
    minji.admin(NODE, "systemctl stop gpuadmin-disk-room.timer; btrfs qgroup limit none 1/6174 /local")
    minji.admin(NODE, "systemctl start gpuadmin-disk-room.timer")
    minji.wait(lambda: minji.ssh("admin", NODE, f"sudo {quotas} | grep -v none | grep 1/6174"))
    with minji.settings(lambda text: text.replace("limits:\n", 'limits:\n  disk_reserve: "0"\n', 1)):
        planned = minji.gpuadmin("provision", "--limit", NODE, "--check")
        assert "nothing is kept for root any more" in str(planned)
        minji.gpuadmin("provision", "--limit", NODE, "--yes")
    assert minji.ssh("admin", NODE, f"sudo {quotas}").returncode != 0
    gone = ("/etc/systemd/system/gpuadmin-disk-room.timer", "/var/lib/gpuadmin/disks.json")
    minji.admin(NODE, " && ".join(f"! test -e {path}" for path in gone))

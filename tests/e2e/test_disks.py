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
    filled = minji.ssh("minji", NODE, f"cd /local/minji && {FILL}")
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
    minji.admin(NODE, "rm -r /local/minji/*; sync")
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


GROUPS = "ls -d /sys/fs/btrfs/*/qgroups/6174_* 2>/dev/null || true"
MEASURED = '{"homes": "/srv/storage/homes", "docker": null, "scratch": [], "logins": false}'
NODE_CODE = "python3 -I /var/lib/gpuadmin/lib/gpuadmin_node/cli.py"
LOG_IN = "bash -lic true 2>/dev/null"  # as a shell that somebody logs in to
WRITE = "dd if=/dev/urandom of={} bs=1M count={} conv=fsync status=none 2>&1 || true"


def amounts(text: str) -> str:
    """gpuadmin.yml with what one person may have."""
    return text.replace("limits:\n", "limits:\n  home: 100M\n  docker: 200M\n  scratch: 150M\n", 1)


@pytest.mark.slow  # four minutes; what it shows is held on loop devices, too (tests/unit/node/limits)
def test_one_person_has_an_amount_of_the_disks(cluster: Cluster) -> None:
    """The story of limits.home, docker and scratch: planned, refused or told, named, and taken back."""
    cluster.add("sua")  # her place for Docker's data is older than the setting
    with cluster.settings(amounts):
        planned = str(cluster.gpuadmin("provision", "--check"))
        assert "a person's Docker data may have 200.0 MB" in planned
        assert "a home may have 100.0 MB" in planned
        assert "/local: a person's scratch may have 150.0 MB" in planned
        assert cluster.admin(NODE, GROUPS).strip() == ""
        cluster.gpuadmin("provision", "--yes")
        for name in ("minji", "jiho"):
            cluster.add(name)
        again = cluster.gpuadmin("provision", "--check")
        assert [name for name, host in again["hosts"].items() if host["changed"]] == []
        assert "sua: made before limits.docker" in str(again)
        assert "sua: made before limits.scratch, so nothing enforces" in str(again)

        # Docker's data: the kernel refuses more, of hers alone
        cluster.person("minji", NODE, "tar c /bin/busybox | docker import - box >/dev/null")
        fill = "docker run --name big box /bin/busybox dd if=/dev/zero of=/x bs=1M count=250 2>&1 || true"
        assert "Disk quota exceeded" in cluster.person("minji", NODE, fill)
        assert cluster.person("jiho", NODE, WRITE.format("/local/.docker/jiho/layer", 50)) == ""
        assert "of 200.0 MB (99%)" in cluster.person("minji", NODE, "gpuadmin-me")
        assert cluster.person("minji", NODE, LOG_IN) == ""
        cluster.admin(NODE, "systemctl start gpuadmin-disk-room")  # which its timer does every minute
        assert "your Docker data on this node: " in cluster.person("minji", NODE, LOG_IN)
        assert "이 노드의 Docker 데이터: 한도 200.0 MB 중" in cluster.person(
            "minji", NODE, f"LANG=ko_KR.UTF-8 {LOG_IN}"
        )
        assert cluster.person("jiho", NODE, LOG_IN) == ""
        assert cluster.ssh("jiho", NODE, "cat /run/gpuadmin-amounts/minji.en").returncode != 0
        said = cluster.gpuadmin("diagnose", "minji", "--limit", NODE, code=6)["result"]
        assert "minji's Docker data is full: " in said["findings"][0]["cause"]
        assert "docker rmi" in cluster.ssh("minji", NODE, "gpuadmin-me check").stdout

        again = "docker rm big >/dev/null; docker run --rm box /bin/busybox echo works"
        assert cluster.person("minji", NODE, again).strip() == "works"

        # scratch: refused beside an amount of Docker's data that has room, and told
        assert "Disk quota exceeded" in cluster.person("minji", NODE, WRITE.format("/local/minji/data", 160))
        assert cluster.person("jiho", NODE, WRITE.format("/local/jiho/data", 50)) == ""
        assert " of 150.0 MB (99%)" in cluster.person("minji", NODE, "gpuadmin-me limits")
        cluster.admin(NODE, "systemctl start gpuadmin-disk-room")
        assert "your scratch on this node: " in cluster.person("minji", NODE, LOG_IN)
        said = cluster.gpuadmin("diagnose", "minji", "--limit", NODE, code=6)["result"]
        assert "minji's scratch is full: " in str(said["findings"])
        assert cluster.person("minji", NODE, "rm /local/minji/data; sync; echo more > /local/minji/file") == ""

        # the home: measured by the storage host, and told
        assert cluster.person("jiho", NODE, WRITE.format("data", 104)) == "", "nothing refuses more"
        cluster.admin(STORAGE, f"mkdir -p /run/gpuadmin-metrics; echo '{MEASURED}' >/var/lib/gpuadmin/disk-places.json")
        cluster.admin(STORAGE, f"sync; {NODE_CODE} disk-usage")
        assert "your home: 109." in cluster.person("jiho", NODE, LOG_IN)
        assert "of 100.0 MB (109%); " in cluster.person("jiho", NODE, "gpuadmin-me")
        said = cluster.gpuadmin("diagnose", "jiho", code=6)["result"]
        assert "jiho's home is more than they may have: 109." in said["findings"][0]["cause"]
        assert cluster.ssh("minji", NODE, "cat /home/.gpuadmin-amounts/jiho.json").returncode != 0

        # what somebody took away by hand is drift
        group = find_group(cluster, "/local/.docker/minji")
        cluster.admin(NODE, f"systemctl stop gpuadmin-disk-room.timer; {unlimited(group)}")
        assert "minji may have 200.0 MB" in str(cluster.gpuadmin("drift", code=6))
        cluster.admin(NODE, "systemctl start gpuadmin-disk-room.timer")

    assert "nobody has an amount of the disks any more" in str(cluster.gpuadmin("provision", "--check"))
    cluster.gpuadmin("provision", "--yes")
    assert cluster.admin(NODE, GROUPS).strip() == ""
    gone = ("/etc/profile.d/gpuadmin-amounts.sh", "/var/lib/gpuadmin/amounts.json", "/run/gpuadmin-amounts")
    cluster.admin(NODE, " && ".join(f"! test -e {path}" for path in gone))
    cluster.admin(STORAGE, "! test -e /srv/storage/homes/.gpuadmin-amounts")
    assert cluster.person("minji", NODE, WRITE.format("/local/.docker/minji/layer", 250)) == ""


def find_group(cluster: Cluster, path: str) -> str:
    return "6174_" + cluster.admin(NODE, f"btrfs inspect-internal rootid {path}").strip()


def unlimited(group: str) -> str:
    return f"btrfs qgroup limit none {group.replace('_', '/')} /local"

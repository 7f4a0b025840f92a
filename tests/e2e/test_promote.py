"""The storage host loses its power while people work: its backup host serves their homes, and the old one never again.

On light hosts, which have no NFS, nodes see the old host's disk whatever they mount: there it is about files and units.
"""

import re
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.gated_cluster import Kept
from tests.support.lab_cluster import KEEP, LAB, PROVISIONED, REPOSITORY, Cluster
from tests.support.labs import leave_packages_out, nothing_left
from tests.support.where import LIGHT

pytestmark = [pytest.mark.lab, pytest.mark.root]
OLD, NEW, NODE = "storage1", "plain1", "node1"
COPIES, HOMES = "/srv/backups", "/srv/storage/homes"
DISK = (
    f"truncate -s 3G /var/copies.img; mkfs.btrfs -q /var/copies.img; mkdir -p {COPIES}; "
    f"echo '/var/copies.img {COPIES} btrfs loop 0 0' >> /etc/fstab; mount {COPIES}; chmod 700 {COPIES}"
)


@pytest.fixture(scope="module")
def made(hosts: str) -> Iterator[Cluster]:
    """storage1, node1, and plain1 with copies of a home; saved as `provisioned`."""
    name = f"{LAB}-promote-{hosts}"
    directory = REPOSITORY / ".cache" / name
    cluster = Cluster(directory / "site", name, light=hosts == LIGHT)
    light = ("--light",) if hosts == LIGHT else ()
    if not (KEEP and PROVISIONED in cluster.saved_states()):
        subprocess.run(["rm", "-rf", directory], check=True)
        directory.mkdir(parents=True)
        cluster.lab("up", *light, "--nodes", "1", "--ordinary", "1", "--site", str(cluster.site))
        if not light:
            leave_packages_out(cluster)
        inventory = cluster.site / "inventory/hosts.yml"
        text = inventory.read_text()
        (entry,) = re.findall(rf"(?m)^ +{NEW}:\n(?: {{10,}}.*\n)+", text)
        text = text.replace(entry, "").replace("    backup: {hosts: {}}\n", f"    backup:\n      hosts:\n{entry}")
        inventory.write_text(text)
        cluster.admin(NEW, f"mkdir -m 700 {COPIES}" if light else DISK)  # light hosts have no loop devices
        cluster.gpuadmin("provision", "--yes")
        cluster.add("minji")
        cluster.person("minji", NODE, "echo yesterday > thesis")
        cluster.gpuadmin("backup", "--yes")
        (cluster.site / "hosts.before").write_text(text)
        cluster.save(PROVISIONED)
    yield cluster
    cluster.end_commands()
    if not KEEP:
        cluster.lab("down", "--purge")
        if light:
            nothing_left(name)


def kill_once(cluster: Cluster, reached: str, *arguments: str) -> None:
    """Kill a run of promote as soon as a command succeeds on this machine or, with `HOST:`, on a host."""
    host, _, command = reached.rpartition(":")
    process = cluster.start("promote", NEW, "--yes", *arguments)
    end = time.monotonic() + 1200
    while subprocess.run(["sh", "-c", command], check=False).returncode if not host else cluster.ssh(
        "admin", host, command).returncode:  # fmt: skip
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.5)  # between two looks
    process.kill()
    process.communicate()


@pytest.mark.story("promote")
def test_the_backup_host_serves_the_homes(made: Cluster) -> None:
    cluster, inventory = made, made.site / "inventory/hosts.yml"
    inventory.write_text((cluster.site / "hosts.before").read_text())
    cluster.restore(PROVISIONED)
    nfs = cluster.nfs == "nfs4"
    if nfs:
        document = cluster.gpuadmin("promote", NEW, "--yes", code=5)
        assert f"{OLD} serves: its NFS port answers" in document["result"]["error"]
    person = Kept(cluster, "minji")
    assert person.ask("exec 3>>notes; echo one >&3; echo today > thesis; sync thesis && echo kept") == "kept"
    cluster.lab("power-cut", OLD)
    document = cluster.gpuadmin("promote", NEW, "--check")
    assert "sh (" in str(document["result"]["held"][NODE]["minji"])
    # killed about when homes are made, and when the inventory is written; people only read at first
    kill_once(cluster, f"{NEW}:sudo test -e /var/lib/gpuadmin/promoted.json", "--read-only")
    kill_once(cluster, f"grep -q homes_read_only {inventory}", "--read-only")
    document = cluster.gpuadmin("promote", NEW, "--read-only", "--yes")
    assert document["hosts"][NODE]["status"] in ("ok", "changed")
    exports = cluster.admin(NEW, "cat /etc/exports.d/gpuadmin.exports")
    assert "(ro," in exports
    if nfs:
        assert cluster.person("minji", NODE, "cat thesis").strip() == "yesterday"
        assert "Read-only file system" in cluster.ssh("minji", NODE, "echo x >> thesis").stderr
    cluster.gpuadmin("promote", NEW, "--yes")
    assert "(rw," in cluster.admin(NEW, "cat /etc/exports.d/gpuadmin.exports")
    address = re.search(rf"{NEW}:.*?gpuadmin_address: .([0-9.]+)", inventory.read_text(), re.S)
    assert address is not None
    assert cluster.admin(NODE, "findmnt -no SOURCE /home | tail -1").strip() == f"{address[1]}:{HOMES}"
    if nfs:  # the same session goes on: what it had open is an error, and no end
        assert "kept" not in person.ask("echo two >&3; sync /dev/fd/3 && echo kept")
        found = person.ask("cd; cat thesis; echo tomorrow >> thesis; cat thesis")
        assert found.split() == ["yesterday", "yesterday", "tomorrow"]
    assert "스토리지 서버에 장애" in cluster.person("minji", NODE, "cat /run/motd.d/*")
    copies = cluster.admin(NEW, f"cat {COPIES}/*-manual/homes/minji/thesis {HOMES}/minji/thesis").split()
    assert copies == ["yesterday", "yesterday", *(["tomorrow"] if nfs else [])]
    # the old one boots again by itself: it asks, and does not serve
    cluster.lab("start", OLD)
    cluster.settle(OLD)
    if nfs:
        assert cluster.ssh("admin", OLD, "systemctl is-active nfs-server").stdout.strip() == "inactive"
        assert "another host serves the homes" in cluster.admin(OLD, "journalctl -b -u nfs-server -o cat")
    cluster.gpuadmin("provision", "--yes")
    cluster.admin(OLD, "test ! -e /etc/exports.d/gpuadmin.exports")
    assert cluster.admin(OLD, f"cat {HOMES}/minji/thesis").split()[0] == "today"
    # and is the host of the second copies
    cluster.gpuadmin("backup", "--yes")
    found = cluster.gpuadmin("list-backups")["result"]["backups"]
    newest = [one["host"] for one in found if one["name"] == found[0]["name"]]
    assert sorted(newest) == [NEW, OLD]
    assert len([one for one in found if one["host"] == NEW]) == 2, "the copies are its backups"
    document = cluster.gpuadmin("promote", NEW, "--yes")
    assert cluster.admin(NODE, "findmnt -no SOURCE /home | tail -1").strip() == f"{address[1]}:{HOMES}"
    person.end()

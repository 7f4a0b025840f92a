"""The first hour with hosts: from a machine with root and a password to one that gpuadmin works with; ssh and run."""

import json
import subprocess
from typing import Any

import pexpect
import pytest

from tests.support.lab_cluster import GPUADMIN, Cluster

pytestmark = pytest.mark.lab
PASSWORD = "correct-horse"
#: What makes a node a machine with root, a password and nothing of gpuadmin's account; its root is open meanwhile.
STRIP = f"""
btrfs property set -ts / ro false
echo root:{PASSWORD} | chpasswd
printf "PermitRootLogin yes\\nPasswordAuthentication yes\\n" >/etc/ssh/sshd_config.d/00-image.conf
rm -f /etc/sudoers.d/gpuadmin
userdel --force gpuadmin || test $? = 8
rm -rf /var/home/gpuadmin
sync
btrfs property set -ts / ro true
systemctl reload ssh || systemctl restart ssh
"""


def at_password(*arguments: str, word: str = PASSWORD) -> tuple[int, str]:
    """Run gpuadmin, answer its question for a password; return its exit code and what it showed."""
    child = pexpect.spawn(GPUADMIN, list(arguments), timeout=300, dimensions=(50, 200), encoding="utf-8")
    child.expect("ssh password")
    before: str = child.before
    child.sendline(word)
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, before + child.before


@pytest.mark.story("bootstrap")
def test_bootstrap_of_a_machine_with_root_and_a_password(cluster: Cluster) -> None:
    known = cluster.site / "known_hosts"
    pinned = known.read_text()
    try:
        cluster.admin("node2", STRIP)
        port = next(
            one["ssh_port"] for one in json.loads(cluster.lab("status", "--json"))["hosts"] if one["name"] == "node2"
        )
        known.write_text("".join(line for line in pinned.splitlines(True) if f":{port}" not in line))
        assert cluster.ssh("admin", "node2", "true").returncode == 255

        common = ["--site", str(cluster.site), "node2", "--ask-pass", "--yes"]
        cluster.gpuadmin("bootstrap", "node2", "--check", code=4)  # no key is pinned: nothing is asked
        assert f":{port}" not in known.read_text()
        code, shown = at_password("bootstrap", *common)
        assert code == 0, shown
        for words in ("SHA256:", "make the account gpuadmin (uid 900", "write /etc/sudoers.d/gpuadmin-gpuadmin"):
            assert words in shown
        assert PASSWORD not in shown
        assert f":{port}" in known.read_text()

        # the account that it was, and gpuadmin works with it
        assert cluster.admin("node2", "getent passwd gpuadmin").split(":")[2:3] == ["900"]
        assert cluster.admin("node2", "stat -c %U:%a /var/home/gpuadmin/.ssh/authorized_keys").strip() == "gpuadmin:600"
        assert cluster.root_is_read_only("node2")
        assert answers(cluster, "node2", "--", "id -u")["node2"]["output"] == "0\n"
        # nobody's login was taken away
        assert "passwordauthentication yes" in cluster.admin("node2", "sshd -T")

        code, shown = at_password("bootstrap", *common)
        assert (code, "Nothing to do" in shown) == (0, True), shown
        code, shown = at_password("bootstrap", *common, word="wrong")
        assert (code, "permission denied" in shown) == (4, True), shown
    finally:
        known.write_text(pinned)


def answers(cluster: Cluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What `gpuadmin run` answers: its own options come before the hosts."""
    line = [*cluster.command("run", "--json"), *arguments]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["result"]["answers"]
    return found


@pytest.mark.story("run", "ssh")
def test_run_and_ssh(cluster: Cluster) -> None:
    found = answers(cluster, "gpu", "--", "id -u; hostname")
    assert {name: one["output"] for name, one in found.items()} == {"node1": "0\nnode1\n", "node2": "0\nnode2\n"}
    assert answers(cluster, "node1", "--", "printf", "%s|", "a b", "$HOME")["node1"]["output"] == "a b|$HOME|"
    found = answers(cluster, "all", "--", "test $(hostname) != node2 || { echo why >&2; exit 7; }", code=3)
    assert found["node2"] == {"status": 7, "output": "", "errors": "why\n"}
    assert found["storage1"]["status"] == 0
    assert answers(cluster, "--check", "node1", "--", "touch /var/tmp/never") == {}
    assert "never" not in cluster.admin("node1", "ls /var/tmp")

    line = [GPUADMIN, "ssh", "--site", str(cluster.site), "node1", "--", "-T", "id -un; exit 5"]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (5, "gpuadmin\n"), done.stderr


#: Stands in for a server that refuses the homes: light hosts have no NFS.
REFUSE = """
printf '#!/bin/sh\necho mount.nfs4: access denied by server >&2\nexit 32\n' >/var/tmp/refuse
chmod 755 /var/tmp/refuse
mount --bind /var/tmp/refuse "$(realpath "$(command -v mount.nfs4)")"
systemctl stop home.mount
"""


def test_homes_that_cannot_be_had_are_told_when_a_node_is_provisioned(cluster: Cluster) -> None:
    try:
        cluster.admin("node2", REFUSE)
        found = cluster.gpuadmin("provision", "--limit", "node2", "--yes", code=3)["hosts"]["node2"]
        assert found["status"] == "failed", found
        assert "The homes cannot be mounted from " in found["message"]
        assert "access denied by server" in found["message"]
        assert "gpuadmin provision, without --limit" in found["message"], "the storage host may not know the node yet"
    finally:
        cluster.admin("node2", 'umount "$(realpath "$(command -v mount.nfs4)")"; rm /var/tmp/refuse')
    assert cluster.gpuadmin("provision", "--limit", "node2", "--yes")["hosts"]["node2"]["status"] == "ok"
    assert cluster.admin("node2", "systemctl is-active home.mount") == "active\n"


def pending(result: dict[str, Any], before: list[str]) -> list[tuple[str, list[str]]]:
    """The runs that `status` says are to be done again, with their hosts, but for those that pended before."""
    return [(run["verb"], list(run["hosts"])) for run in result["pending"]["runs"] if run["run"] not in before]


@pytest.mark.story("status")
def test_status_shows_who_is_there_and_what_is_away(minji: Cluster) -> None:
    before = minji.admin("node1", "findmnt -rn | wc -l")
    with minji.session("minji", "node2"):
        found = minji.gpuadmin("status")["result"]
    hosts = found["hosts"]
    assert {name: host["state"] for name, host in hosts.items()} == dict.fromkeys(minji.hosts(), "up")
    assert all(host["unknown"] == {} for host in hosts.values())
    assert [hosts[name]["people"] for name in ("node1", "node2")] == [[], ["minji"]]
    assert hosts["node1"]["disks"]["Docker"]["free"] > 0
    assert hosts["storage1"]["disks"]["homes"]["mount"] == "/srv/storage"
    assert (found["backup"]["newest"], found["backup"]["unknown"]) == (None, {})
    others = [run["run"] for run in found["pending"]["runs"]]  # of tests that let a run fail on the same site
    minji.gpuadmin("backup", "--yes")
    newest = minji.gpuadmin("status")["result"]["backup"]["newest"]
    assert (newest["homes"], newest["verified"], newest["host"]) == (1, 1, "storage1")
    assert minji.admin("node1", "findmnt -rn | wc -l") == before
    # a host that is away is a row, and what could not be done there pends until it is done
    minji.lab("power-cut", "node2")
    minji.gpuadmin("lock-user", "minji", "--yes", code=4)
    away = minji.gpuadmin("status", code=4)["result"]
    assert (away["hosts"]["node2"]["state"], away["hosts"]["node2"]["people"]) == ("unreachable", None)
    assert (away["totals"]["up"], away["totals"]["gpus_unknown"]) == (2, ["node2"])
    assert pending(away, others) == [("lock-user", ["node2"])]
    minji.lab("start", "node2")
    minji.settle("node2")
    minji.gpuadmin("sync-users", "--yes")
    assert pending(minji.gpuadmin("status")["result"], others) == []

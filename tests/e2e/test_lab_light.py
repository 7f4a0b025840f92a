"""Light hosts, as somebody without KVM uses them: up, a person on them, back to a saved moment, and nothing is left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import KEEP, REPOSITORY, Cluster
from tests.e2e.cluster import LAB as PREFIX
from tests.e2e.labs import provisioned_lab

pytestmark = [pytest.mark.lab, pytest.mark.root]
LAB = f"{PREFIX}-single"


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with provisioned_lab(LAB, REPOSITORY / ".cache" / "e2e-single", "--light", "--nodes", "1") as found:
        yield found
    if KEEP:
        return
    # nothing of it is left on this machine: no process, no mount, no loop device, no network
    assert f"lab/{LAB}/hosts" not in output("losetup", "-a")
    assert f"gpuadmin-lab-{LAB}" not in output("ip", "netns")
    assert list(Path("/sys/fs/cgroup").rglob(f"gpuadmin-lab-{LAB}-*")) == []


def test_a_person_uses_a_light_host(cluster: Cluster) -> None:
    cluster.add("minji")
    assert cluster.person("minji", "node1", "echo hello > ~/f; cat ~/f; id -u").split() == ["hello", "20000"]
    assert cluster.admin("storage1", "cat /srv/storage/homes/minji/f").strip() == "hello"
    # logind knows the session, the user's own systemd runs the socket of their Docker, the root is closed
    assert cluster.person("minji", "node1", "systemctl --user is-active docker.socket").strip() == "active"
    assert "rootless" in cluster.person("minji", "node1", "docker info 2>/dev/null")
    assert cluster.root_is_read_only("node1")
    cluster.gpuadmin("lock-user", "minji", "--yes")
    assert cluster.ssh("minji", "node1", "true").returncode == 255


def test_the_cluster_on_one_screen(cluster: Cluster) -> None:
    cluster.restore("provisioned")
    cluster.empty()
    cluster.add("minji")
    before = cluster.admin("node1", "findmnt -rn | wc -l")
    found = cluster.gpuadmin("status")["result"]
    assert {name: host["state"] for name, host in found["hosts"].items()} == {"storage1": "up", "node1": "up"}
    assert all(host["unknown"] == {} for host in found["hosts"].values())
    assert found["hosts"]["node1"]["disks"]["Docker"]["free"] > 0
    assert found["hosts"]["storage1"]["disks"]["homes"]["mount"] == "/srv/storage"
    assert (found["backup"]["newest"], found["backup"]["unknown"]) == (None, {})
    assert found["pending"]["runs"] == []
    cluster.gpuadmin("backup", "--yes")
    newest = cluster.gpuadmin("status")["result"]["backup"]["newest"]
    assert (newest["homes"], newest["verified"], newest["host"]) == (1, 1, "storage1")
    assert cluster.admin("node1", "findmnt -rn | wc -l") == before
    # a host that is away is a row, and what could not be done there pends until it is done
    cluster.lab("power-cut", "node1")
    cluster.gpuadmin("lock-user", "minji", "--yes", code=4)
    away = cluster.gpuadmin("status", code=4)["result"]
    assert (away["hosts"]["node1"]["state"], away["hosts"]["node1"]["people"]) == ("unreachable", None)
    assert away["totals"]["gpus_unknown"] == ["node1"]
    assert [(run["verb"], list(run["hosts"])) for run in away["pending"]["runs"]] == [("lock-user", ["node1"])]
    cluster.lab("start", "node1")
    cluster.settle("node1")
    cluster.gpuadmin("sync-users", "--yes")
    assert cluster.gpuadmin("status")["result"]["pending"]["runs"] == []


def test_a_host_that_was_ended_comes_back_with_what_it_wrote(cluster: Cluster) -> None:
    cluster.restore("provisioned")
    cluster.admin("node1", "echo kept > /var/tmp/kept")
    cluster.lab("power-cut", "node1")
    host = next(one for one in json.loads(cluster.lab("status", "--json"))["hosts"] if one["name"] == "node1")
    assert (host["running"], host["ssh"]) == (False, False)
    cluster.lab("start", "node1")
    cluster.settle("node1")
    assert cluster.admin("node1", "cat /var/tmp/kept; systemctl is-system-running").split() == ["kept", "running"]
    cluster.restore("provisioned")
    assert cluster.admin("node1", "ls /var/tmp").strip().count("kept") == 0

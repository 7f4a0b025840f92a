"""Light hosts, as somebody without KVM uses them: up, a person on them, back to a saved moment, and nothing is left."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab_cluster import KEEP, REPOSITORY, Cluster
from tests.support.lab_cluster import LAB as PREFIX
from tests.support.labs import provisioned_lab

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

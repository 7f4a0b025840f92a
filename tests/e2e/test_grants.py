"""GPUs for those who were granted one: two people on one node, ssh open."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.support import gated_cluster
from tests.support.gated_cluster import NODE, PROBE, opened
from tests.support.lab_cluster import MAKE_IMAGE, Cluster

pytestmark = pytest.mark.lab


@pytest.fixture
def gated(cluster: Cluster) -> Iterator[Cluster]:
    with gated_cluster.gated(cluster) as found:
        yield found


@pytest.mark.story("grant", "revoke", "grants")
def test_a_gpu_is_given_and_taken_back(gated: Cluster) -> None:
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", ""]
    gated.person("minji", NODE, MAKE_IMAGE)
    gated.person("minji", NODE, "docker run -d --name before --device /dev/gpu-a tiny /bin/sleep 600")
    inside = f'docker exec before /bin/sh -c "{PROBE.replace("$", chr(92) + "$")}"'
    assert gated.person("minji", NODE, inside).strip() == ""
    until = (datetime.now() + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    gated.gpuadmin("grant", "minji", NODE, "--gpu", "0", "--until", until, "--reason", "a deadline", "--yes")
    assert opened(gated, "minji") == "a"
    assert gated.person("minji", NODE, inside).strip() == "a"
    assert opened(gated, "jiho") == ""
    (row,) = gated.gpuadmin("grants")["result"]["hosts"][NODE]["grants"]
    assert (row["user"], row["gpus"], row["reason"]) == ("minji", ["0"], "a deadline")
    refused = gated.gpuadmin("grant", "jiho", NODE, "--gpu", "0", "--hours", "1", "--yes", code=3)
    assert "granted to minji" in str(refused["hosts"][NODE])
    # what ends takes nothing from a neighbour
    gated.gpuadmin("grant", "jiho", NODE, "--gpu", "1", "--hours", "1", "--yes")
    gated.gpuadmin("revoke", "minji", "--yes")
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "b"]
    # nothing of systemd's takes it away or opens more
    for command in ("daemon-reload", "daemon-reexec", "restart systemd-logind"):
        gated.admin(NODE, f"systemctl {command}")
        assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "b"], command
    # a gate that somebody opened by hand is closed by the next run, and is said to be open where it cannot be
    gated.admin(NODE, "systemctl revert user-20000.slice")
    gated.admin(NODE, "systemctl set-property --runtime ssh.service 'DeviceAllow=char-* rwm'")
    gated.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "b"]
    assert gated.gpuadmin("status", "--limit", NODE)["result"]["hosts"][NODE]["gpu_gate"] == []
    # and after a boot, by itself
    gated.reboot(NODE)
    make = "; ".join(f"mknod -m 666 /dev/gpu-{name} c {gated_cluster.MAJOR} {minor}" for minor, name in enumerate("ab"))
    gated.admin(NODE, make)
    gated.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")
    assert [opened(gated, name) for name in ("minji", "jiho")] == ["", "b"]

"""The gate through an image's boot: the image is of a node whose GPUs are everybody's, and its gate is not."""

import pytest
import yaml

from tests.support.gated_cluster import make_gpu, opened
from tests.support.imaging import running
from tests.support.lab_cluster import Cluster
from tests.support.where import IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.virtual(IMAGE), pytest.mark.slow]
GOLDEN, NODE = "node1", "node2"
#: When the gate was closed, and when somebody could log in, in microseconds since this boot.
CLOSED, LOGINS = (
    f"systemctl show --property=ActiveEnterTimestampMonotonic --value {unit}"
    for unit in ("gpuadmin-gpu-closed.service", "systemd-user-sessions.service")
)


def who(cluster: Cluster, node: str) -> dict[str, str]:
    """Who opens the node's GPU."""
    return {name: can for name in ("minji", "jiho") if (can := opened(cluster, name, node=node))}


def test_an_image_of_an_open_node_opens_nothing(cluster: Cluster) -> None:
    for name in ("minji", "jiho"):
        cluster.add(name)
    inventory = cluster.site / "inventory/hosts.yml"
    before = inventory.read_text()
    try:
        make_gpu(cluster, GOLDEN, NODE)
        tree = yaml.safe_load(inventory.read_text())
        tree["all"]["children"]["gpu"]["hosts"][NODE]["gpus_access"] = "granted"
        inventory.write_text(yaml.safe_dump(tree))
        cluster.gpuadmin("provision", "--limit", f"{GOLDEN},{NODE}", "--yes")
        cluster.gpuadmin("grant", "minji", NODE, "--gpu", "0", "--hours", "24", "--yes")
        assert who(cluster, GOLDEN) == {"minji": "0", "jiho": "0"}
        assert who(cluster, NODE) == {"minji": "0"}

        cluster.gpuadmin("build-image", "open", "--no-trial", "--yes")
        cluster.gpuadmin("push-image", "open", "--limit", NODE, "--yes")
        assert running(cluster, NODE) == "open"
        _as_before(cluster)
        cluster.gpuadmin("rollback-image", "--limit", NODE, "--yes")
        assert running(cluster, NODE) == "base"
        _as_before(cluster)
        cluster.gpuadmin("revoke", "minji", "--yes")
        assert who(cluster, NODE) == {}
    finally:
        inventory.write_text(before)


def _as_before(cluster: Cluster) -> None:
    assert who(cluster, NODE) == {"minji": "0"}
    assert cluster.gpuadmin("status")["result"]["hosts"][NODE]["gpu_gate"] == []
    closed, logins = (int(cluster.admin(NODE, command)) for command in (CLOSED, LOGINS))
    assert 0 < closed <= logins, "the gate was closed before anybody could log in"

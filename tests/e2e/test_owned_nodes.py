"""A node that a group comes first on: others use it meanwhile, and leave it when the group needs it."""

import pytest

from tests.support.gated_cluster import PROBE, opened
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, SLURM, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]  # light hosts, which have GPUs
OWNED = SLURM.replace("}", ", notice: 1, groups: [{name: phd, owns: {nodes: [node1]}}]}")
PLAIN = SLURM.replace("}", ", groups: [{name: phd}]}")
STATES = "sacct -X -D -n --allusers --starttime=now-1hour -o user%20,state%20,nodelist%20"


def _jobs(cluster: Cluster) -> list[tuple[str, str, bool]]:
    found = cluster.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"]
    return sorted((one["user"], one["nodes"], bool(one["place"])) for one in found)


def test_a_group_s_job_preempts_another_s_on_its_node_and_they_are_told(with_queue: Cluster) -> None:
    with queued(with_queue, OWNED) as cluster:
        cluster.gpuadmin("change-user", "minji", "--group", "phd", "--yes")
        # where nobody comes first, and then on what the group leaves free
        assert "node2" in cluster.person("jiho", "node2", "gpu get 2")
        assert "node1: phd comes first there" in cluster.person("jiho", "node2", "gpu get 2 --hours 2")
        for verb in ("list", "limits"):
            read = cluster.person("minji", "node1", f"gpu {verb}")
            assert "node1: phd comes first there; others' jobs may be preempted" in read
        assert opened(cluster, "jiho") == "01"
        cluster.person("minji", "node1", "gpu get 2 --no-wait")
        leaves = "gpu why | grep -o 'phd comes first on node1 and needs it now. Your GPUs go back at'"
        cluster.wait(lambda: cluster.ssh("jiho", "node1", leaves), seconds=60)
        assert opened(cluster, "jiho") == "01", "there is time to save"
        told = "systemctl start gpuadmin-gpu-gate.service; cat /run/gpuadmin/leaving.json"
        assert "slurm-" in cluster.admin("node1", told)
        cluster.wait(lambda: cluster.ssh("minji", "node1", f'[ "$({PROBE})" = "01" ] && echo so'), seconds=180)
        assert opened(cluster, "jiho") == ""
        assert _jobs(cluster) == [("jiho", "", True), ("jiho", "node2", False), ("minji", "node1", False)]
        ended = cluster.admin(CONTROLLER, STATES).splitlines()
        assert ["jiho", "PREEMPTED", "node1"] in [line.split() for line in ended]
        # nobody comes first any more: what runs goes on
        with cluster.settings(lambda text: text.replace(OWNED, PLAIN)):
            cluster.gpuadmin("provision", "--yes")
        assert _jobs(cluster) == [("jiho", "", True), ("jiho", "node2", False), ("minji", "node1", False)]
        assert "comes first" not in cluster.person("jiho", "node2", "gpu list")

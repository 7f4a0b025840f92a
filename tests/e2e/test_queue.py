"""GPUs by Slurm's queue: two people, two nodes, ssh open."""

import time
from collections.abc import Iterator

import pytest

from tests.support.gated_cluster import NODE, PROBE, kept, opened
from tests.support.lab_cluster import MAKE_IMAGE, Cluster
from tests.support.queued_cluster import CONTROLLER, SLURM, queued

pytestmark = [pytest.mark.lab, pytest.mark.root]  # light hosts, which have GPUs


@pytest.fixture
def queue(cluster: Cluster) -> Iterator[Cluster]:
    with queued(cluster) as found:
        yield found


def _until(cluster: Cluster, name: str, can: str) -> None:
    cluster.wait(lambda: cluster.ssh(name, NODE, f'[ "$({PROBE})" = "{can}" ] && echo so'))


def _until_closed(cluster: Cluster) -> None:
    for node in ("node1", "node2"):
        none = "! sudo grep -rq slurm /var/lib/gpuadmin/gpu-grants && echo so"
        cluster.wait(lambda node=node, none=none: cluster.ssh("admin", node, none))


def _granted(cluster: Cluster) -> list[str]:
    hosts = cluster.gpuadmin("grants")["result"]["hosts"]
    return [f"{one['user']} {host} {' '.join(one['gpus'])}" for host, seen in hosts.items() for one in seen["grants"]]


def test_a_person_waits_for_their_turn_and_gets_exactly_that(queue: Cluster) -> None:
    assert [opened(queue, name) for name in ("minji", "jiho")] == ["", ""]
    queue.person("minji", NODE, MAKE_IMAGE)
    queue.person("minji", NODE, "docker run -d --name before --device /dev/nvidia0 tiny /bin/sleep 600")
    inside = f'docker exec before /bin/sh -c "{PROBE.replace("$", chr(92) + "$")}"'
    with kept(queue, "minji") as shell:
        assert (shell.ask(PROBE), queue.person("minji", NODE, inside).strip()) == ("", "")
        assert "1 GPU on node1" in queue.person("minji", NODE, f"gpu get 1 --node {NODE}")
        assert shell.ask(PROBE) == "0"
        assert queue.person("minji", NODE, inside).strip() == "0"
        # a neighbour's job over both nodes gets the other one
        job = queue.person("jiho", NODE, "sbatch --parsable -N2 --gres=gpu:1 -D / -o /dev/null --wrap 'srun sleep 600'")
        _until(queue, "jiho", "1")
        assert sorted(_granted(queue)) == ["jiho node1 1", "jiho node2 0", "minji node1 0"]
        # who comes now waits, and sees their place and why
        queue.person("minji", NODE, f"gpu get 2 --no-wait --node {NODE}")
        assert "place 1" in queue.person("jiho", NODE, "gpu list")
        (waiting,) = [one for one in queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"] if one["place"]]
        assert (waiting["user"], waiting["gpus"]) == ("minji", 2)
        # asking for more than there is, or for longer than anybody may, is refused at once
        for asked, said in (("get 9", "No node has that"), ("get --hours 5", "more than one person may have")):
            refused = queue.ssh("jiho", NODE, f"gpu {asked}")
            assert refused.returncode == 1
            assert said in refused.stderr
        # jobs are no hole in the gate, and an admin gives away nothing that the queue has
        assert queue.gpuadmin("status")["result"]["hosts"][NODE]["gpu_gate"] == []
        queue.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")
        assert "Slurm decides" in str(queue.gpuadmin("grant", "jiho", NODE, "--hours", "1", "--yes", code=5))
        # a node that is drained takes no further job; what runs there goes on
        queue.gpuadmin("drain", "node2", "--reason", "new image", "--yes")
        assert "node2 takes no jobs now: new image" in queue.person("jiho", NODE, "gpu list")
        queue.gpuadmin("resume", "node2", "--yes")
        assert "new image" not in queue.person("jiho", NODE, "gpu list")
        # the controller is killed: what runs goes on, and whoever asks hears so soon
        queue.admin(CONTROLLER, "systemctl kill -s KILL slurmctld; systemctl stop slurmctld")
        began = time.monotonic()
        refused = queue.ssh("minji", NODE, "gpu get")
        assert (refused.returncode, "does not answer" in refused.stderr) == (1, True)
        assert time.monotonic() - began < 6, "squeue waits for nine seconds"
        assert [opened(queue, name) for name in ("minji", "jiho")] == ["0", "1"]
        queue.admin(CONTROLLER, "systemctl start slurmctld")
        # given back: closed everywhere, and the neighbour's goes on
        queue.wait(lambda: queue.ssh("minji", NODE, "gpu release && echo given back"))
        _until(queue, "minji", "")
        assert shell.ask(PROBE) == ""
        assert queue.person("minji", NODE, inside).strip() == ""
    assert opened(queue, "jiho") == "1"
    # whoever is locked loses what they have, and asks for nothing
    queue.gpuadmin("lock-user", "jiho", "--yes")
    _until_closed(queue)
    queue.wait(
        lambda: queue.ssh("admin", CONTROLLER, f"! squeue --noheader --format=%i | grep -w {job.strip()} && echo gone")
    )
    assert "|0" in queue.admin(CONTROLLER, "sacctmgr -nP show assoc user=jiho format=user,maxsubmitjobs")
    # taken away again, nothing is left that starts or opens a GPU
    with queue.settings(lambda text: text.replace(SLURM, "")):
        queue.gpuadmin("provision", "--yes")
    for host, units in ((NODE, ["slurmd"]), (CONTROLLER, ["slurmctld", "slurmdbd"])):
        for unit in units:
            state = queue.admin(host, f"systemctl show --property=ActiveState,UnitFileState {unit}")
            assert state.split() == ["ActiveState=inactive", "UnitFileState=disabled"], unit
    assert queue.admin(NODE, "find /var/lib/gpuadmin/slurm /usr/local/bin/gpu -type f 2>/dev/null || true") == ""

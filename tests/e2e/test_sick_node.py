"""A sick node of the queue: it takes no job and says why, its people are told, and an admin who resumes it is refused
until it is mended. What other hosts cause passes by itself. NVIDIA's library is a stand-in (tests/support/fake_nvml).
"""

from collections.abc import Iterator

import pytest

from tests.support import fake_driver
from tests.support.gated_cluster import NODE, opened
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.long, pytest.mark.needs("cc")]
ECC = "GPU 0 (0000:01:00.0): 3 memory errors that ECC could not correct: reset or replace it"
SICK = fake_driver.WHOLE.replace("ecc_uncorrected = 0", "ecc_uncorrected = 3", 1)
FAN = "test ! -e /var/tmp/loud || { echo 'fan 3 stands still'; exit 1; }"
BURN = '{burn_in: [sh, -c, "test ! -e /var/tmp/hot || { echo GPU 0 is 94 C; exit 3; }"]}'


@pytest.fixture
def queue(cluster: Cluster) -> Iterator[Cluster]:
    with (
        cluster.site_file("health.d/10-fan", f"#!/bin/sh\n{FAN}\n", 0o755),
        fake_driver.named_by_driver(cluster, NODE),
        queued(cluster, health=BURN) as found,
    ):
        yield found


def reason(queue: Cluster, node: str) -> str:
    return queue.admin(CONTROLLER, f"sinfo --noheader --nodes={node} --format=%E").strip()


def refused(queue: Cluster, *words: str) -> str:
    """What an admin reads."""
    return str(queue.gpuadmin(*words, "--yes", code=5))


def test_a_sick_node_is_closed_until_it_is_mended(queue: Cluster) -> None:
    queue.person("minji", NODE, f"gpu get 1 --node {NODE}")
    fake_driver.describe(queue, NODE, SICK)
    # its own check closes it within a minute; what runs goes on, and its person is told
    shown = f"gpu list | grep -F '{NODE} takes no jobs now: gpuadmin sick: GPU 0'"
    queue.wait(lambda: queue.ssh("jiho", "node2", shown), seconds=120)
    assert reason(queue, NODE) == f"gpuadmin sick: {ECC}"
    assert opened(queue, "minji") == "0"
    told = f"grep -F '{NODE} is faulty: {ECC}' /run/gpuadmin-queue/minji.en"
    queue.wait(lambda: queue.ssh("admin", NODE, f"{told} && echo so"), seconds=90)
    nodes = queue.gpuadmin("list-gpus")["result"]["nodes"]
    assert (nodes[NODE]["closed"], nodes["node2"]["closed"]) == ([ECC], [])
    # nobody resumes it, nor burns it in while somebody computes there
    assert ECC in refused(queue, "resume", NODE)
    assert "in use by minji" in str(queue.gpuadmin("burn-in", NODE, "--yes", code=3))
    assert reason(queue, NODE) == f"gpuadmin sick: {ECC}"
    queue.person("minji", NODE, "gpu release")
    # mended: a burn-in that fails keeps it closed, one that passes does not open what it has not drained
    fake_driver.describe(queue, NODE, fake_driver.WHOLE)
    queue.admin(NODE, "touch /var/tmp/hot")
    assert "GPU 0 is 94 C (status 3)" in str(queue.gpuadmin("burn-in", NODE, "--yes", code=3))
    assert "GPU 0 is 94 C (status 3)" in refused(queue, "resume", NODE)
    queue.admin(NODE, "rm /var/tmp/hot")
    queue.gpuadmin("burn-in", NODE, "--yes")
    assert '"problem": ""' in queue.admin(NODE, "cat /var/lib/gpuadmin/burn-in.json")
    assert reason(queue, NODE) == f"gpuadmin sick: {ECC}"
    queue.gpuadmin("resume", NODE, "--yes")
    queue.person("jiho", NODE, f"gpu get 1 --node {NODE}")
    queue.person("jiho", NODE, "gpu release")
    # one that nobody has drained takes jobs again after it
    queue.gpuadmin("burn-in", "node2", "--yes")
    assert reason(queue, "node2") == "none"


def test_a_job_that_begins_on_a_sick_or_full_node_waits_for_another(queue: Cluster) -> None:
    """The check of each minute has not seen it yet."""
    queue.admin("node2", "touch /var/tmp/loud")
    queue.person("jiho", NODE, "gpu get 1 --node node2 --no-wait")
    shown = "gpu list | grep -F 'node2 takes no jobs now: gpuadmin sick: 10-fan'"
    queue.wait(lambda: queue.ssh("jiho", NODE, shown), seconds=120)
    assert reason(queue, "node2") == "gpuadmin sick: 10-fan: fan 3 stands still"
    queue.admin("node2", "rm /var/tmp/loud")
    queue.gpuadmin("resume", "node2", "--yes")
    queue.wait(lambda: queue.ssh("jiho", NODE, "gpu list | grep 'jiho .* node2'"), seconds=120)
    queue.person("jiho", NODE, "gpu release")
    # a full disk: the job goes back to the queue, and the node takes it by itself once there is room
    queue.admin("node2", "mount -t tmpfs -o size=20m tmpfs /local && ! head -c 30M /dev/zero >/local/large")
    queue.admin("node2", "rm -f /run/gpuadmin/health.json")
    queue.person("jiho", NODE, "gpu get 1 --node node2 --no-wait")
    said = "sinfo --noheader --nodes=node2 --format=%E | grep -F"
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, f"{said} full"), seconds=90)
    assert reason(queue, "node2") == "gpuadmin full disk: /local"
    queue.admin("node2", "rm /local/large")
    queue.wait(lambda: queue.ssh("jiho", NODE, "gpu list | grep 'jiho .* node2'"), seconds=180)
    queue.person("jiho", NODE, "gpu release")
    queue.admin("node2", "umount /local")
    # the homes are away, and come back
    queue.admin("node2", "systemctl stop home.automount home.mount")
    homes = "gpuadmin for now: the homes (/home) are not mounted"
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, f"{said} '{homes}'"), seconds=120)
    queue.admin("node2", "systemctl start home.automount")
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, f"{said} -x none"), seconds=120)

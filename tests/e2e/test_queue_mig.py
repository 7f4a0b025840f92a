"""A GPU of the queue is divided: the node takes no further job, its person is waited for, and it takes jobs again.

Without a driver (tests/support/fake_nvml). A MIG device's files have the number of their GPU's, so that they can be
opened where it was granted, and not otherwise.
"""

import re
from collections.abc import Iterator

import pytest

from gpuadmin.actions.shared.queue import make_mark
from tests.support import fake_driver
from tests.support.gated_cluster import NODE, opened
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.needs("cc")]
#: A driver makes these files as it divides a GPU; slurmd waits for them, and does not answer meanwhile.
CAPS = """cat >/run/caps.sh <<'EOF'
while sleep 0.2; do
    for one in $(sed -n 's/DeviceFileMinor: //p' /proc/driver/nvidia/capabilities/gpu0/mig/gi*/{access,ci*/access}); do
        mkdir -p /dev/nvidia-caps
        [ -e /dev/nvidia-caps/nvidia-cap$one ] || mknod -m 444 /dev/nvidia-caps/nvidia-cap$one c 203 0
    done
done 2>/dev/null
EOF
systemd-run --quiet --collect --unit=caps.service bash /run/caps.sh"""


@pytest.fixture
def queue(cluster: Cluster) -> Iterator[Cluster]:
    with (
        fake_driver.named_by_driver(cluster, NODE),
        queued(cluster) as found,
        cluster.site_file(f"inventory/host_vars/{NODE}.yml", "gpus_mig: {0: [7g.80gb]}\n"),
    ):
        try:
            yield found
        finally:
            found.admin(NODE, "systemctl stop caps.service || true")


def profiles(cluster: Cluster) -> list[list[str]]:
    """The MIG devices of each GPU, as the library has them."""
    _, *gpus = re.split(r"(?m)^\[gpu\]$", cluster.admin(NODE, f"cat {fake_driver.DESCRIBED}"))
    return [re.findall(r"(?m)^name = .* MIG (\S+)$", gpu) for gpu in gpus]


def closed(cluster: Cluster) -> str:
    """Why the node takes no jobs; nothing where it takes some."""
    nodes = cluster.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["nodes"]
    return next(str(one["reason"]) for one in nodes if one["name"] == NODE)


def test_a_gpu_of_the_queue_is_divided_when_its_job_has_ended(queue: Cluster) -> None:
    queue.person("minji", NODE, f"gpu get 1 --node {NODE}")
    assert opened(queue, "minji") == "0"
    left = str(queue.gpuadmin("mig", NODE, "--yes", code=5))
    assert ("GPU 0 is left out: granted to minji" in left, profiles(queue), closed(queue)) == (True, [[], []], ""), left
    # it waits for her: nothing else starts there meanwhile, and what runs goes on
    mig = queue.start("mig", NODE, "--when-idle", "--yes")
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, f"sinfo --noheader --nodes={NODE} --format=%T | grep drain"))
    assert closed(queue).startswith(make_mark("mig", queue.site))
    queue.person("jiho", NODE, f"gpu get 1 --type h100-pcie --node {NODE} --no-wait")
    assert [opened(queue, name) for name in ("minji", "jiho")] == ["0", ""]
    assert profiles(queue) == [[], []]
    queue.admin(NODE, CAPS)
    queue.person("minji", NODE, "gpu release")
    out, err = mig.communicate(timeout=600)
    assert mig.returncode == 0, out + err
    # its controller, which was started again, hears of the node in a moment
    answers = f"sinfo --noheader --nodes={NODE} --format=%T | grep -v '[*]'"
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, answers))
    assert (profiles(queue), closed(queue)) == ([["7g.80gb"], []], "")
    # Slurm knows what there is now: who waited has the GPU that is whole, and the other one is its profile's
    queue.wait(lambda: queue.ssh("jiho", NODE, '[ "$( : < /dev/nvidia1 && echo 1)" = 1 ] && echo so'))
    gres = queue.admin(CONTROLLER, f"scontrol show node {NODE} | grep Gres=")
    assert ("gpu:7g.80gb:1" in gres, "gpu:h100-pcie:1" in gres) == (True, True), gres
    queue.person("minji", NODE, f"gpu get 1 --mig 7g.80gb --node {NODE}")
    (granted,) = [one for one in queue.gpuadmin("grants")["result"]["hosts"][NODE]["grants"] if one["user"] == "minji"]
    assert granted["gpus"][0].startswith("MIG-")
    assert [opened(queue, name) for name in ("minji", "jiho")] == ["0", "1"]
    assert queue.gpuadmin("status")["result"]["hosts"][NODE]["gpu_gate"] == []

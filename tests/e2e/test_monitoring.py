"""Who uses which GPU, and what alerts say: from a person's container to the verbs, and from a fault to a mail.

The driver is none (tests/support/fake_nvml). Prometheus, Alertmanager, the exporters and Docker are the distribution's,
and mails go to a mail server on the monitor host.
"""

import time
from typing import Any

import pytest

from tests.support import fake_driver, fake_nvml
from tests.support.fake_driver import FIRST, MIG
from tests.support.lab_cluster import MAKE_IMAGE, Cluster
from tests.support.mail_sink import Sink
from tests.support.monitored import INTERVAL, asked, watched, within

__all__ = ["watched"]

pytestmark = [pytest.mark.lab, pytest.mark.needs("cc")]
#: It has the first GPU open.
TRAIN = (
    "docker run -d --name train --user 1000 --device nvidia.com/gpu=0 tiny "
    "/bin/sh -c 'exec /bin/sleep 100000 3</dev/nvidia0'"
)


def top(cluster: Cluster) -> dict[str, Any]:
    nodes: dict[str, Any] = cluster.gpuadmin("top")["result"]["nodes"]
    return nodes


def holders(cluster: Cluster, uuid: str) -> list[tuple[str, str, int]] | None:
    """Who holds a device of node1, as `top` has it: user, container, processes that compute. None: not known."""
    devices = {device["uuid"]: device["holders"] for device in top(cluster)["node1"]["devices"]}
    held = devices.get(uuid)
    return None if held is None else [(one["user"], one["container"], one["processes"]) for one in held]


@pytest.mark.long
@pytest.mark.story("top")
def test_a_container_on_a_gpu_is_seen_and_a_node_that_is_cut_is_mailed(watched: Cluster) -> None:
    sink = Sink(watched, "admins@example.org")
    within(600, lambda: {name: node["state"] for name, node in top(watched).items()} == {"node1": "up", "node2": "up"})
    assert sink.mails() == [], "all is well"
    watched.lab("power-cut", "node2")  # the alert takes minutes, in which somebody computes

    fake_driver.install(watched, "node1")
    one_process = fake_nvml.TWO.read_text().replace("[process]\npid = 4343\nmemory = 1073741824\n", "")
    nothing = one_process.replace("[process]\npid = 4242\nmemory = 4294967296\n", "")
    fake_driver.describe(watched, "node1", nothing)
    watched.admin("node1", "systemctl restart gpuadmin-metrics-sampler gpuadmin-metrics-mapper")
    fake_driver.refreshed(watched, "node1")
    watched.person("minji", "node1", f"{MAKE_IMAGE} && {TRAIN}")
    pid = watched.person("minji", "node1", "docker inspect --format '{{.State.Pid}}' train").strip()
    assert int(watched.admin("node1", f"stat -c %u /proc/{pid}")) == 2**31 + 999
    # the driver lists its process: it computes
    fake_driver.describe(watched, "node1", one_process.replace("pid = 4242", f"pid = {pid}"))
    within(600, lambda: holders(watched, FIRST) == [("minji", "train", 1)])
    (sample,) = asked(watched, "gpuadmin_gpu_allocated")
    labels = ("instance", "uuid", "user", "container", "value")
    assert [sample[label] for label in labels] == ["node1", FIRST, "minji", "train", 1]
    found = watched.gpuadmin("top", "--free")["result"]
    assert [device["uuid"] for device in found["nodes"]["node1"]] == [MIG]
    # the driver lists nothing any more: the GPU is free, though it is still open
    fake_driver.describe(watched, "node1", nothing)
    within(600, lambda: holders(watched, FIRST) == [])
    watched.person("minji", "node1", "docker rm -f train")
    # what always runs there keeps no node from a reboot
    assert watched.gpuadmin("reboot", "node1", "--force", "--check")["result"]["steps"] == [["node1"]]

    text, *_ = within(600, lambda: sink.about("HostDown"))
    assert text.startswith("node2 does not answer a ping\n  since ")
    assert top(watched)["node2"]["state"] == "down"
    # for a host that is down, only that is said
    assert {subject for subject, _ in sink.mails()} == {f"[{watched.name}] HostDown"}


#: What the rules wait until they say it, here: half an hour and five minutes are long for a test.
SOONER = (
    "btrfs property set -ts / ro false; "
    "sed -i '/alert: DiskFull/,/for:/ s/for: .*/for: 30s/' /etc/gpuadmin/monitoring/rules/hosts.yml; "
    "btrfs property set -ts / ro true; systemctl reload prometheus"
)
#: Where a large piece has no room, smaller ones have. btrfs finds more when it tidies up: it is filled again then.
FILL = (
    "for size in 64M 8M 1M; do "
    "while fallocate -l $size $(mktemp /srv/storage/filler.XXXXXX) 2>/dev/null; do :; done; done"
)


@pytest.mark.story("provision")
@pytest.mark.slow
def test_a_disk_that_fills_is_mailed_before_and_when_it_is_full(watched: Cluster) -> None:
    sink = Sink(watched, "admins@example.org")
    watched.admin("storage1", SOONER)
    room = 'node_filesystem_avail_bytes{mountpoint="/srv/storage"} / node_filesystem_size_bytes'
    (sample,) = within(600, lambda: asked(watched, room))
    assert sample["value"] > 0.9
    time.sleep(3 * INTERVAL)  # so that there is a past from which it is foretold
    size = int(watched.admin("storage1", "df -B1 --output=size /srv/storage | tail -n 1"))
    watched.admin("storage1", f"fallocate -l {int(size * 0.7)} /srv/storage/filler")
    (text,) = within(300, lambda: sink.about("DiskFullSoon"))
    assert text.startswith("/srv/storage of storage1 is full within a day"), text
    assert sink.about("DiskFull")[0] == text, "it is not full yet"

    def said() -> list[str]:
        watched.admin("storage1", FILL)
        return [one for one in sink.about("DiskFull") if " left" in one]

    (text,) = within(400, said)
    assert text.startswith("/srv/storage of storage1 has "), text
    assert all("DiskFull" in subject for subject, _ in sink.mails())

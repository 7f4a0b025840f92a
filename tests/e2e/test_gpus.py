"""A person's containers get GPUs by name: no real driver (tests/support/fake_nvml), Docker and systemd as they are.

Where this machine has NVIDIA's container toolkit, it is NVIDIA's that writes the specification, and its hooks run.
"""

import pytest

from tests.support import fake_driver
from tests.support.fake_driver import DESCRIBED, FIRST, MIG
from tests.support.lab_cluster import MAKE_IMAGE, Cluster

pytestmark = [pytest.mark.lab, pytest.mark.needs("cc")]


def refreshed(cluster: Cluster) -> list[str]:
    return fake_driver.refreshed(cluster, "node1")


def knows_no_names(cluster: Cluster) -> bool:
    """Whether the node has a Docker before 25: the toolkit's own runtime is a stand-in there, and NVIDIA's nowhere."""
    return int(cluster.person("minji", "node1", "docker version -f '{{.Server.Version}}'").partition(".")[0]) < 25


def asked(cluster: Cluster, device: str) -> list[str]:
    """The device files of GPUs in a container that minji starts with this device; nothing where it does not start."""
    named = f"--device nvidia.com/gpu={device}"
    if knows_no_names(cluster):
        named = f"--runtime nvidia -e NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu={device}"
    run = f"docker run --rm {named} tiny /bin/sh -c"
    done = cluster.ssh("minji", "node1", f'{run} "echo /dev/nvidia*; echo x > /dev/nvidiactl" 2>&1')
    if done.returncode == 0:
        return done.stdout.split()
    assert f"unresolvable CDI devices nvidia.com/gpu={device}" in done.stdout
    return []


@pytest.mark.story("list-gpus")
def test_a_container_gets_gpus_by_name(minji: Cluster) -> None:
    assert refreshed(minji) == []
    fake_driver.install(minji, "node1")
    seen = minji.gpuadmin("list-gpus")["result"]["nodes"]
    assert {name: node["answering"] for name, node in seen.items()} == {"node1": 2, "node2": 0}
    first, divided = seen["node1"]["nvml"]["gpus"]
    assert (first["uuid"], [part["uuid"] for part in divided["mig_devices"]]) == (FIRST, [MIG])
    common = ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    minji.person("minji", "node1", MAKE_IMAGE)
    if knows_no_names(minji):  # it learns of the runtime when it starts
        minji.person("minji", "node1", "systemctl --user restart docker")
    # her daemon runs already when the GPUs get their names
    assert asked(minji, "0") == []
    assert refreshed(minji) == ["0", "1:0", FIRST, MIG, "all"]
    assert asked(minji, "0") == [*common, "/dev/nvidia0", "/dev/nvidiactl"]
    assert asked(minji, FIRST) == [*common, "/dev/nvidia0", "/dev/nvidiactl"]
    part = ["/dev/nvidia-caps", *common, "/dev/nvidia1", "/dev/nvidiactl"]
    assert asked(minji, "1:0") == part
    assert asked(minji, MIG) == part
    assert asked(minji, "all") == ["/dev/nvidia-caps", *common, "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
    # she is nobody's member for it
    assert set(minji.person("minji", "node1", "id -nG").split()) & {"docker", "video", "render"} == set()
    # the MIG device is taken away: its names go, the others stay, and nobody starts a daemon again
    minji.admin(
        "node1",
        "rm -r /var/lib/fake-driver/driver/nvidia/capabilities/gpu1/mig/gi7; "
        f"sed -i '/^.mig.$/,$d' {DESCRIBED}; echo 1:0 {MIG} > /var/lib/fake-driver/gone",
    )
    assert refreshed(minji) == ["0", FIRST, "all"]
    assert asked(minji, "1:0") == []
    assert asked(minji, "0") == [*common, "/dev/nvidia0", "/dev/nvidiactl"]
    # the driver is gone: nothing is left that names a GPU
    minji.admin("node1", "rm /var/lib/fake-driver/driver/nvidia/version")
    assert refreshed(minji) == []
    assert asked(minji, "all") == []

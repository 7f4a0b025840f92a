"""GPUs are divided as the site says, and never under anybody: without a driver (tests/support/fake_nvml)."""

import re

import pytest

from tests.support import fake_driver
from tests.support.fake_driver import DESCRIBED
from tests.support.holding_gpus import HOLD, NOBODY, background, used_by
from tests.support.lab_cluster import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.needs("cc")]


LAYOUT = "inventory/host_vars/node1.yml"


def devices(cluster: Cluster) -> list[list[str]]:
    """The profiles of each GPU's MIG devices, as the library has them."""
    text = cluster.admin("node1", f"cat {DESCRIBED}")
    _, *gpus = re.split(r"(?m)^\[gpu\]$", text)
    return [re.findall(r"(?m)^name = .* MIG (\S+)$", gpu) for gpu in gpus]


@pytest.mark.story("mig")
def test_gpus_are_divided_where_nobody_is_on_them(minji: Cluster) -> None:
    fake_driver.install(minji, "node1")
    with minji.site_file(LAYOUT, "gpus_mig: {0: [3g.40gb, 4g.40gb], 1: [7g.80gb]}\n"):
        pid = background(minji, "minji", HOLD)
        used_by(minji, pid)

        checked = minji.gpuadmin("mig", "--check")
        assert checked["result"]["gpus"] == {"node1": [1]}
        assert "minji holds it" in checked["result"]["left"][0]
        assert devices(minji) == [[], ["1g.10gb"]], "a check divides nothing"
        minji.gpuadmin("mig", "--yes")
        assert devices(minji) == [[], ["7g.80gb"]]
        minji.person("minji", "node1", f"kill {pid}")
        text = minji.admin("node1", f"cat {DESCRIBED}")
        fake_driver.describe(minji, "node1", text.replace(f"[process]\npid = {pid}\nmemory = 1073741824\n", ""))
        minji.gpuadmin("mig", "--yes")
        assert devices(minji) == [["3g.40gb", "4g.40gb"], ["7g.80gb"]]

        # a boot: instances are gone, and on one GPU the mode as well
        fake_driver.describe(minji, "node1", NOBODY.partition("[mig]")[0])
        minji.admin("node1", "rm -r /var/lib/fake-driver/driver/nvidia/capabilities/gpu*/mig/gi*")
        assert minji.admin("node1", "systemctl is-enabled gpuadmin-gpu-mig.service") == "enabled\n"
        minji.admin("node1", "systemctl start gpuadmin-gpu-mig.service")
        assert devices(minji) == [["3g.40gb", "4g.40gb"], ["7g.80gb"]]

    with minji.site_file(LAYOUT, "gpus_mig: {}\n"):
        minji.gpuadmin("mig", "node1", "--yes")
        assert devices(minji) == [[], []]

"""A small lab of light hosts, as somebody without KVM begins with: up, a person on it, and nothing is left.

`make test` has the same on the lab that all tests share.
"""

from collections.abc import Iterator

import pytest

from tests.support.lab_cluster import KEEP, REPOSITORY, Cluster
from tests.support.lab_cluster import LAB as PREFIX
from tests.support.labs import nothing_left, provisioned_lab

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
LAB = f"{PREFIX}-single"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with provisioned_lab(LAB, REPOSITORY / ".cache" / "e2e-single", "--light", "--nodes", "1") as found:
        yield found
    if not KEEP:
        nothing_left(LAB)


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

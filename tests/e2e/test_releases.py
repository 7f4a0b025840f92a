"""One cluster of four releases of Debian: set up, accounts, logins, containers, and the reading verbs."""

from collections.abc import Iterator

import pytest

from tests.support.lab_cluster import KEEP, MAKE_IMAGE, REPOSITORY, Cluster
from tests.support.lab_cluster import LAB as PREFIX
from tests.support.labs import nothing_left, provisioned_lab

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
LAB = f"{PREFIX}-releases"
#: A storage host that is older than one of its nodes, and newer than two.
RELEASES = {"storage1": "13", "node1": "14", "node2": "12", "node3": "11"}
#: What not all of sshd's releases know.
BETWEEN_RELEASES = {"gssapiauthentication", "refuseconnection"}
NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = [word for host, number in RELEASES.items() for word in ("--release", f"{host}={number}")]
    directory = REPOSITORY / ".cache" / "e2e-releases"
    with provisioned_lab(LAB, directory, "--light", "--nodes", "3", "--gpus", "2", *options) as found:
        found.add("minji")
        yield found
    if not KEEP:
        nothing_left(LAB)


def test_each_host_has_its_release(cluster: Cluster) -> None:
    for host, number in RELEASES.items():
        assert cluster.admin(host, ". /etc/os-release; echo ${VERSION_ID:-14}").strip() == number


def test_nothing_is_left_to_do(cluster: Cluster) -> None:
    document = cluster.gpuadmin("provision", "--yes")
    assert {name: host["status"] for name, host in document["hosts"].items()} == dict.fromkeys(RELEASES, "ok")


@pytest.mark.parametrize("node", NODES)
def test_a_person_and_a_container(cluster: Cluster, node: str) -> None:
    assert cluster.person("minji", node, f"echo {node} > ~/{node}; cat ~/{node}; id -u").split() == [node, "20000"]
    assert cluster.admin("storage1", f"cat /srv/storage/homes/minji/{node}").strip() == node
    assert cluster.person("minji", node, "systemctl --user is-active docker.socket").strip() == "active"
    assert cluster.root_is_read_only(node)
    cluster.person("minji", node, MAKE_IMAGE)
    assert "uid=0" in cluster.person("minji", node, "docker run --rm tiny /bin/id")
    assert cluster.person("minji", node, "docker info -f '{{.Driver}}'").strip() in ("overlay2", "overlayfs")


def test_sshds_settings_are_read_on_each(cluster: Cluster) -> None:
    found = cluster.gpuadmin("drift", code=6)["result"]["privileges"]["found"]
    assert {one["key"].removeprefix("sshd ") for one in found} <= BETWEEN_RELEASES


def test_backups(cluster: Cluster) -> None:
    cluster.gpuadmin("backup", "--yes")
    cluster.gpuadmin("verify-backup", "--yes")

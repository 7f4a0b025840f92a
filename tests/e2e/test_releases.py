"""Clusters of several releases: set up, accounts, logins, containers, the reading verbs and backups."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuadmin.lab.releases import RELEASES
from tests.support.lab_cluster import KEEP, MAKE_IMAGE, REPOSITORY, Cluster
from tests.support.lab_cluster import LAB as PREFIX
from tests.support.labs import nothing_left, provisioned_lab

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
#: Each with a storage host that is older than one of its nodes, and newer than another.
CLUSTERS = {
    "debian": {"storage1": "13", "node1": "14", "node2": "12", "node3": "11"},
    "ubuntu": {"storage1": "24.04", "node1": "26.04", "node2": "22.04"},
}
#: What not all of sshd's releases know.
BETWEEN_RELEASES = {"gssapiauthentication", "maxstartups", "refuseconnection"}


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    hosts = CLUSTERS[request.param]
    distribution = RELEASES[hosts["node1"]].distribution
    if not Path(distribution.keyring).exists():
        pytest.skip(f"{distribution.keyring} is missing: install {distribution.package}")
    name = f"{PREFIX}-releases-{request.param}"
    options = [word for host, number in hosts.items() for word in ("--release", f"{host}={number}")]
    directory = REPOSITORY / ".cache" / f"e2e-releases-{request.param}"
    with provisioned_lab(name, directory, "--light", "--nodes", str(len(hosts) - 1), "--gpus", "2", *options) as found:
        found.add("minji")
        yield found
    if not KEEP:
        nothing_left(name)


def releases(cluster: Cluster) -> dict[str, str]:
    return CLUSTERS[cluster.name.rpartition("-")[2]]


def nodes(cluster: Cluster) -> list[str]:
    return [name for name in releases(cluster) if name != "storage1"]


def test_each_host_has_its_release(cluster: Cluster) -> None:
    for host, number in releases(cluster).items():
        assert cluster.admin(host, ". /etc/os-release; echo ${VERSION_ID:-14}").strip() == number


def test_nothing_is_left_to_do(cluster: Cluster) -> None:
    document = cluster.gpuadmin("provision", "--yes")
    assert {name: host["status"] for name, host in document["hosts"].items()} == dict.fromkeys(releases(cluster), "ok")


def test_a_person_and_a_container(cluster: Cluster) -> None:
    for node in nodes(cluster):
        assert cluster.person("minji", node, f"echo {node} > ~/{node}; cat ~/{node}; id -u").split() == [node, "20000"]
        assert cluster.admin("storage1", f"cat /srv/storage/homes/minji/{node}").strip() == node
        assert cluster.person("minji", node, "systemctl --user is-active docker.socket").strip() == "active"
        assert cluster.root_is_read_only(node)
        cluster.person("minji", node, MAKE_IMAGE)
        assert cluster.person("minji", node, "docker run --rm tiny /bin/id -u").strip() == "0"
        assert cluster.person("minji", node, "docker info -f '{{.Driver}}'").strip() in ("overlay2", "overlayfs")


def test_sshds_settings_are_read_on_each(cluster: Cluster) -> None:
    found = cluster.gpuadmin("drift", code=6)["result"]["privileges"]["found"]
    assert {one["key"].removeprefix("sshd ") for one in found} <= BETWEEN_RELEASES


def test_backups(cluster: Cluster) -> None:
    cluster.gpuadmin("backup", "--yes")
    cluster.gpuadmin("verify-backup", "--yes")


def test_a_gpu_is_opened_to_one_person(cluster: Cluster) -> None:
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text() + "\ngpus:\n  access: granted\n")
    cluster.gpuadmin("provision", "--yes")
    for node in nodes(cluster):
        look = "(: </dev/nvidia0) 2>/dev/null && echo open || echo closed"
        assert cluster.person("minji", node, look).strip() == "closed"
        cluster.gpuadmin("grant", "minji", node, "--gpu", "0", "--hours", "1", "--reason", "a test", "--yes")
        assert cluster.person("minji", node, look).strip() == "open"
        cluster.gpuadmin("revoke", "minji", "--limit", node, "--yes")
        assert cluster.person("minji", node, look).strip() == "closed"

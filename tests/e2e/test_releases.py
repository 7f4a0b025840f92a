"""Clusters of several releases: set up, accounts, logins, containers, verbs, backups, and a queue."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuadmin.lab.releases import RELEASES
from tests.support.lab_cluster import KEEP, MAKE_IMAGE, REPOSITORY, Cluster
from tests.support.lab_cluster import LAB as PREFIX
from tests.support.labs import nothing_left, provisioned_lab

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
#: Each with a storage host that is older than one of its nodes, and newer than another.
CLUSTERS = {
    "debian": {"storage1": "13", "node1": "14", "node2": "12", "node3": "11"},
    "ubuntu": {"storage1": "24.04", "node1": "26.04", "node2": "22.04"},
    "mixed": {"storage1": "24.04", "node1": "12", "node2": "22.04", "node3": "24.04", "node4": "13"},
}
#: Its verbs were run by hand; these tests are slow until they have passed.
MIXED = pytest.mark.parametrize("cluster", ["mixed"], indirect=True)
#: What an admin types, and how it may end where nothing is wrong: hosts of several releases differ (6), and light hosts
#: have no hardware to read (3).
VERBS: list[tuple[str, set[int]]] = [
    ("status", {0}), ("list-gpus", {0}), ("top --local", {0}), ("disk", {0}), ("list-users", {0}), ("compare", {6}),
    ("audit", {3}), ("hand-over", {6}), ("diagnose minji", {0}), ("renumber --check", {0}),
    ("restore-home minji --in-place --yes", {0}), ("lock-user minji --yes", {0}), ("unlock-user minji --yes", {0}),
    ("reboot gpu --force --yes", {0}),
]  # fmt: skip
LOOK = "(: </dev/nvidia0) 2>/dev/null && echo open || echo closed"
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


@MIXED
@pytest.mark.parametrize(("words", "codes"), VERBS)
def test_a_verb(cluster: Cluster, words: str, codes: set[int]) -> None:
    process = cluster.start(*words.split(), "--json")
    out, err = process.communicate(timeout=900)
    assert process.returncode in codes, out[-2000:] + err[-2000:]
    hosts = json.loads(out)["hosts"]
    assert [name for name, one in hosts.items() if one["status"] in ("failed", "unreachable")] == [], hosts


def test_a_gpu_is_opened_to_one_person(cluster: Cluster) -> None:
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text() + "\ngpus:\n  access: granted\n")
    cluster.gpuadmin("provision", "--yes")
    for node in nodes(cluster):
        assert cluster.person("minji", node, LOOK).strip() == "closed"
        cluster.gpuadmin("grant", "minji", node, "--gpu", "0", "--hours", "1", "--reason", "a test", "--yes")
        assert cluster.person("minji", node, LOOK).strip() == "open"
        cluster.gpuadmin("revoke", "minji", "--limit", node, "--yes")
        assert cluster.person("minji", node, LOOK).strip() == "closed"


@MIXED
def test_a_queue_has_the_nodes_that_its_controller_understands(cluster: Cluster) -> None:
    settings, inventory = cluster.site / "gpuadmin.yml", cluster.site / "inventory/hosts.yml"
    settings.write_text(f"{settings.read_text()}\nslurm: {{oldest: '22.05', constrain: [], hours: 4}}\n")
    tree = yaml.safe_load(inventory.read_text())
    tree["all"]["children"]["slurm"] = {"hosts": {"storage1": {}}}
    found = tree["all"]["children"]["gpu"]["hosts"]
    for node in found.values():
        node |= {"gpus": 2, "gpu_model": "NVIDIA H100 PCIe"}
    inventory.write_text(yaml.safe_dump(tree))
    hosts = cluster.gpuadmin("provision", "--yes", code=3)["hosts"]
    assert "which is older than slurm.oldest in gpuadmin.yml (22.05)" in hosts["node2"]["message"]
    assert "slurmd is of Slurm 24.11, and the queue's controller of 23.11" in hosts["node4"]["message"]
    assert [hosts[name]["changed"] for name in ("node2", "node4")] == [[], []], "nothing was changed there"
    for name in ("node2", "node4"):
        found[name]["slurm_node"] = False
    inventory.write_text(yaml.safe_dump(tree))
    cluster.gpuadmin("provision", "--yes")
    for node in ("node1", "node3"):
        cluster.wait(lambda node=node: cluster.ssh("minji", node, f"gpu get 1 --node {node}"))
        assert cluster.person("minji", node, LOOK).strip() == "open"
        cluster.person("minji", node, "gpu release")

"""Clusters of several releases: set up, accounts, logins, containers, verbs, backups, the end of a term, and queues.

What docs/releases.md says of a release is run again by these, and by `GPUADMIN_TEST_RELEASE=plain1=24.04,plain2=22.04`
with test_upgrade.py, and `GPUADMIN_TEST_RELEASE=storage1=22.04,node1=24.04,node2=12` with test_rehearse.py.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuadmin.lab.releases import RELEASES
from tests.support.lab_cluster import KEEP, MAKE_IMAGE, REPOSITORY, Cluster
from tests.support.lab_cluster import LAB as PREFIX
from tests.support.labs import nothing_left, provisioned_lab
from tests.support.monitored import MONITOR, SETTINGS, asked, within

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
#: Each with a storage host that is older than one of its nodes; the first two also with one that is newer.
CLUSTERS = {
    "debian": {"storage1": "13", "node1": "14", "node2": "12", "node3": "11"},
    "ubuntu": {"storage1": "24.04", "node1": "26.04", "node2": "22.04"},
    "mixed": {"storage1": "22.04", "node1": "24.04", "node2": "12", "node3": "13", "node4": "22.04"},
}
MIXED = pytest.mark.parametrize("cluster", ["mixed"], indirect=True)
#: The releases that most people have are on that one, whose storage host is the monitor host, too.
MIXED_SETTINGS = f"""{SETTINGS}
gpus: {{access: granted, health: {{burn_in: [sh, -c, "test -c /dev/nvidia0"]}}}}
"""
TERM = "term: {name: 2026-2, deadline: 2026-01-31, next: {name: 2027-1, deadline: 2099-06-30}}"
#: What an admin types, and how it may end where nothing is wrong: hosts of several releases differ (6), somebody
#: who was granted no GPU is told so (6), and light hosts have no hardware to read (3).
VERBS: list[tuple[str, set[int]]] = [
    ("status", {0}), ("list-gpus", {0}), ("top", {0}), ("top --local", {0}), ("usage", {0}), ("logs", {0}),
    ("disk", {0}), ("list-users", {0}), ("compare", {6}), ("audit", {3}), ("hand-over", {6}), ("diagnose minji", {6}),
    ("renumber --check", {0}), ("backup --yes", {0}), ("verify-backup --yes", {0}), ("list-backups", {0}),
    ("restore-home minji --in-place --yes", {0}), ("lock-user minji --yes", {0}), ("unlock-user minji --yes", {0}),
    ("change-user minji --note statistics --yes", {0}), ("sync-users --yes", {0}),
    ("burn-in node1 node2 node3 node4 --yes", {0}), ("reboot all --force --yes", {0}),
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
        settings, monitor = found.site / "gpuadmin.yml", found.site / "inventory/monitor.yml"
        if request.param == "mixed" and not monitor.exists():  # with GPUADMIN_KEEP_LAB it is of an earlier session
            monitor.write_text(MONITOR)
            settings.write_text(f"{settings.read_text()}\n{MIXED_SETTINGS}")

        def set_up() -> None:
            if request.param == "mixed":
                found.gpuadmin("provision", "--yes")
            found.add("minji")

        found.begin("people", set_up)
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


@MIXED
def test_the_monitor_host_watches_them_all(cluster: Cluster) -> None:
    def who(query: str) -> set[str]:
        return {one["instance"].partition(":")[0] for one in asked(cluster, query)}

    within(120, lambda: who('up{job="node"} == 1') == set(releases(cluster)))
    cluster.admin("node2", "logger -t lab 'a line of node2'")
    within(120, lambda: cluster.gpuadmin("logs", "node2", "--grep", "a line of node2")["result"]["output"])


@MIXED
def test_a_window_and_an_announcement(cluster: Cluster) -> None:
    begin, until = (time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + one)) for one in (-60, 3600))
    when = ("--from", begin, "--until", until, "--reason", "x", "--yes", "--json")
    process = cluster.start("maintain", *when, ",".join(nodes(cluster)), "--", "run", "gpu", "--", "touch /run/done")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-2000:]
    for node in nodes(cluster):
        assert "점검: " in cluster.admin(node, "cat /run/motd.d/gpuadmin-announcements")
    cluster.gpuadmin("maintain", "--begin", json.loads(out)["result"]["id"], "--yes")
    for node in nodes(cluster):
        cluster.admin(node, "test -e /run/done && ! test -e /run/motd.d/gpuadmin-announcements")


@MIXED
def test_off_and_on(cluster: Cluster) -> None:
    cluster.gpuadmin("shutdown", "gpu", "--force", "--yes")

    def running() -> list[str]:
        found = json.loads(cluster.lab("status", "--json"))["hosts"]
        return [one["name"] for one in found if one["pid"] is not None]

    within(300, lambda: running() == ["storage1"])
    cluster.lab("up", "--site", str(cluster.site))
    for node in nodes(cluster):
        cluster.wait(lambda node=node: cluster.ssh("minji", node, "touch ~/back && hostname"), seconds=120)
        cluster.settle(node)
        assert cluster.admin(node, "systemctl --failed --quiet --no-legend") == ""


def test_a_gpu_is_opened_to_one_person(cluster: Cluster) -> None:
    settings = cluster.site / "gpuadmin.yml"
    if "\ngpus:" not in settings.read_text():  # a comment of it names the field, too
        settings.write_text(settings.read_text() + "\ngpus:\n  access: granted\n")
        cluster.gpuadmin("provision", "--yes")
    for node in nodes(cluster):
        assert cluster.person("minji", node, LOOK).strip() == "closed"
        cluster.gpuadmin("grant", "minji", node, "--gpu", "0", "--hours", "1", "--reason", "a test", "--yes")
        assert cluster.person("minji", node, LOOK).strip() == "open"
        cluster.gpuadmin("revoke", "minji", "--limit", node, "--yes")
        assert cluster.person("minji", node, LOOK).strip() == "closed"


@MIXED
def test_a_term_ends(cluster: Cluster) -> None:
    cluster.restore("people")
    with cluster.settings(lambda text: f"{text}\n{TERM}\n"):
        cluster.add("jiho")
        for name in ("minji", "jiho"):
            cluster.person(name, "node1", f"echo {name} > thesis")
        cluster.gpuadmin("extend-term", "jiho", "--yes")
        cluster.gpuadmin("semester-reset", "--check")
        document = cluster.gpuadmin("semester-reset", "--yes", "--term", "2026-2", "--grace", "5")
        report = document["result"]["report"]
        assert {one["name"]: one["home"] for one in report["leaving"]} == {"minji": "wiped"}
        assert report["pending"] == {}
        for node in nodes(cluster):
            assert cluster.ssh("minji", node, "true").returncode == 255
            assert cluster.person("jiho", node, "cat thesis").strip() == "jiho"
        cluster.gpuadmin("restore-home", "minji", "--yes")
        assert "minji-20000-restored-" in cluster.admin("storage1", "ls /srv/storage/homes/.gpuadmin-attic")


OLDER = "which is older than slurm.oldest in gpuadmin.yml (22.05)"
MISFIT = "slurmd is of Slurm {}, and the queue's controller of {}"
#: A controller, the oldest Slurm of its queue, the nodes that it leads, and what others are refused for. Ubuntu 22.04
#: has Slurm 21.08, Debian 12 has 22.05, Ubuntu 24.04 has 23.11, and Debian 13 has 24.11.
QUEUES = [
    ("node1", "22.05", ("node1", "node2"), {"node3": MISFIT.format("24.11", "23.11"), "node4": OLDER}),
    ("node2", "21.08", ("node2", "node4"),
     {"node1": MISFIT.format("23.11", "22.05"), "node3": MISFIT.format("24.11", "22.05")}),
    ("node3", "22.05", ("node1", "node3"), {"node2": MISFIT.format("22.05", "24.11"), "node4": OLDER}),
]  # fmt: skip


@MIXED
@pytest.mark.parametrize(("controller", "oldest", "led", "refused"), QUEUES)
def test_a_queue_has_the_nodes_that_its_controller_understands(
    cluster: Cluster, controller: str, oldest: str, led: tuple[str, ...], refused: dict[str, str]
) -> None:
    cluster.restore("people")
    inventory = cluster.site / "inventory/hosts.yml"
    before = inventory.read_text()
    tree = yaml.safe_load(before)
    tree["all"]["children"]["slurm"] = {"hosts": {controller: {}}}
    found = tree["all"]["children"]["gpu"]["hosts"]
    for node in found.values():
        node |= {"gpus": 2, "gpu_model": "NVIDIA H100 PCIe"}
    inventory.write_text(yaml.safe_dump(tree))
    slurm = f"\nslurm: {{oldest: '{oldest}', constrain: [], hours: 4}}\n"
    try:
        with cluster.settings(lambda text: text + slurm):
            hosts = cluster.gpuadmin("provision", "--yes", code=3)["hosts"]
            for name, why in refused.items():
                assert why in hosts[name]["message"], hosts[name]
                assert hosts[name]["changed"] == [], "nothing was changed there"
                found[name]["slurm_node"] = False
            inventory.write_text(yaml.safe_dump(tree))
            cluster.gpuadmin("provision", "--yes")
            for node in led:
                cluster.wait(lambda node=node: cluster.ssh("minji", node, f"gpu get 1 --node {node}"))
                assert cluster.person("minji", node, LOOK).strip() == "open"
                cluster.person("minji", node, "gpu release")
    finally:
        inventory.write_text(before)

"""A full image along a chain of nodes, and a chain that breaks. On a lab of its own, of four nodes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import imaging
from tests.support.imaging import running, wait_for_fault, words
from tests.support.lab_cluster import LAB, REPOSITORY, Cluster
from tests.support.labs import provisioned_lab
from tests.support.where import IMAGE

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.virtual(IMAGE)]
CHAIN = ("node2", "node3", "node4")
PUSH = ("push-image", "one", "--full", "--limit", ",".join(CHAIN), "--canary", "0", "--batch", "100%", "--yes")


@pytest.fixture(scope="module")
def with_full_image() -> Iterator[Cluster]:
    """Four nodes, which run `base`; the golden one has built `one`, also as a full stream."""
    with provisioned_lab(f"{LAB}-chain", REPOSITORY / ".cache" / "e2e-chain", "--nodes", "4") as lab:
        if "imaged" not in lab.lab("status"):
            imaging.prepare(lab, "--full", "--no-trial")  # nobody boots it here
        yield lab


@pytest.fixture
def nodes(with_full_image: Cluster) -> Cluster:
    """That lab as it was."""
    return imaging.restore(with_full_image)


def sent_by_the_store(cluster: Cluster) -> int:
    """Bytes that the storage host has sent, over all its interfaces."""
    links: list[dict[str, Any]] = json.loads(cluster.admin("storage1", "ip -json -stats link show"))
    return sum(int(link["stats64"]["tx"]["bytes"]) for link in links if link["ifname"] != "lo")


def size(cluster: Cluster) -> int:
    """Bytes of the full stream."""
    return int(cluster.admin("storage1", "stat -c %s /srv/storage/images/one/full.btrfs.zst"))


def assert_ready(cluster: Cluster) -> None:
    """All three have the image, proven by themselves, and will try it."""
    for node in CHAIN:
        assert words(cluster, node)["trial"] == "one"
        assert running(cluster, node) == "base"
        assert "one" in imaging.node_report(cluster, node)["held"]
        cluster.admin(node, "test ! -e /run/gpuadmin/image-relay.pem")


def test_the_store_sends_it_once(nodes: Cluster) -> None:
    before, stream = sent_by_the_store(nodes), size(nodes)
    document = nodes.gpuadmin(*PUSH, "--no-reboot")
    assert {host["status"] for host in document["hosts"].values()} == {"changed"}
    assert_ready(nodes)
    assert stream <= sent_by_the_store(nodes) - before <= 1.5 * stream


def test_a_link_that_breaks_costs_a_refetch(nodes: Cluster) -> None:
    """The node in the middle loses its relay half-way; it and the one behind it complete from the store."""
    since = imaging.arm(nodes, "node2", "fetch:middle")
    push = nodes.start(*PUSH, "--no-reboot", "--json")
    wait_for_fault(nodes, "node2", "fetch:middle", push, since)
    nodes.admin("node3", "systemctl kill --signal=KILL gpuadmin-relay.service")
    imaging.disarm(nodes, "node2")
    out, err = push.communicate(timeout=1800)
    assert push.returncode == 0, out + err
    assert_ready(nodes)

"""Images when power, images, networks and disks misbehave. The matrix is long: `make test-faults` runs all of it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.imaging import (
    BROKEN,
    arm,
    assert_sound,
    build_broken,
    cut_power_at,
    disarm,
    dpkg_verify,
    identity,
    node_report,
    running,
    wait_for_fault,
    words,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gpuadmin" / "collections"))
from ansible_collections.gpuadmin.node.plugins.module_utils import switch

pytestmark = [pytest.mark.lab, pytest.mark.slow]


class Whole:
    """What a node is before its power is cut; held against what it is afterwards."""

    def __init__(self, cluster: Cluster, host: str = "node2") -> None:
        self.cluster, self.host = cluster, host
        self.identity, self.verified = identity(cluster, host), dpkg_verify(cluster, host)

    def check(self, *roots: str) -> None:
        """It runs one of these roots, which is what boots by itself, and is itself, closed, with its people."""
        root = running(self.cluster, self.host)
        assert root.partition("+")[0] in roots
        assert words(self.cluster, self.host)["current"] == root
        assert_sound(self.cluster, self.host, self.identity, self.verified)
        assert self.cluster.person("minji", self.host, "id -un").strip() == "minji"

    def complete(self) -> None:
        """A further push completes, and leaves no debris."""
        self.cluster.gpuadmin("push-image", "one", "--yes")
        self.check("one")
        mount = "mkdir -p /run/top; mount -o subvolid=5 LABEL=gpuadmin /run/top"
        left = self.cluster.admin(self.host, f"{mount}; ls /run/top/incoming; ls /run/top/roots; umount /run/top")
        assert left.split() == ["base", running(self.cluster, self.host)]


def test_power_cut_at_each_step_before_the_reboot(imaged: Cluster) -> None:
    """One push after the other is cut, each a point further on; the node boots what it ran.

    After the last point it boots the new one, which then needs nobody for its trial.
    """
    whole = Whole(imaged)
    *before, last = switch.fault_points("engine")
    for point in before:
        print(point)  # pytest shows it where the test fails
        cut_power_at(imaged, "node2", point)
        whole.check("base")
    cut_power_at(imaged, "node2", last)
    whole.check("one")
    whole.complete()


@pytest.mark.parametrize("point", switch.fault_points("boot"))
def test_power_cut_on_trial(armed: Cluster, point: str) -> None:
    """The node boots by itself into old or new, and a second push completes."""
    whole = Whole(armed)
    cut_power_at(armed, "node2", point)
    whole.check(*(("one",) if point in ("commit:after", "prune:before", "prune:after") else ("base", "one")))
    whole.complete()


@pytest.mark.parametrize("name", BROKEN)
def test_a_bad_image_falls_back_by_itself(imaged: Cluster, name: str) -> None:
    before, verified = identity(imaged, "node2"), dpkg_verify(imaged, "node2")
    build_broken(imaged, name)
    push = ("push-image", name, "--limit", "node2", "--deadline", "150", "--yes")
    document = imaged.gpuadmin(*push, code=3)
    assert document["hosts"]["node2"]["status"] == "failed"
    assert running(imaged, "node2") == "base"
    assert_sound(imaged, "node2", before, verified)
    assert name in node_report(imaged, "node2")["refused"]
    assert imaged.person("minji", "node2", "id -un").strip() == "minji"


@pytest.mark.parametrize("point", ["fetch:middle", "root:written"])
def test_kill_of_the_work_on_the_node(imaged: Cluster, point: str) -> None:
    before, verified = identity(imaged, "node2"), dpkg_verify(imaged, "node2")
    arm(imaged, "node2", point, "kill")
    document = imaged.gpuadmin("push-image", "one", "--yes", code=3)
    assert "ended from outside" in document["hosts"]["node2"]["message"]
    disarm(imaged, "node2")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"
    assert_sound(imaged, "node2", before, verified)


@pytest.mark.parametrize("point", ["fetch:middle", "trial:before"])
def test_kill_of_the_controller(imaged: Cluster, point: str) -> None:
    since = arm(imaged, "node2", point)
    push = imaged.start("push-image", "one", "--yes", "--json")
    wait_for_fault(imaged, "node2", point, push, since)
    push.kill()
    push.communicate(timeout=60)
    # what it started goes on without it, and the next push waits for that
    disarm(imaged, "node2")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"


def test_the_store_goes_away(imaged: Cluster) -> None:
    """In the middle of a fetch: a sentence, not a process that hangs; what came is kept for the next push."""
    since = arm(imaged, "node2", "fetch:middle")
    push = imaged.start("push-image", "one", "--yes", "--json")
    wait_for_fault(imaged, "node2", "fetch:middle", push, since)
    imaged.lab("power-cut", "storage1")
    disarm(imaged, "node2")
    out, err = push.communicate(timeout=900)
    assert push.returncode == 3, out + err
    message = json.loads(out)["hosts"]["node2"]["message"]
    assert "went away" in message, message
    assert running(imaged, "node2") == "base"
    assert words(imaged, "node2").get("trial", "") == ""
    imaged.lab("start", "storage1")
    imaged.settle("storage1")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"


def test_the_first_failed_batch_is_the_last(imaged: Cluster) -> None:
    """node1 is the golden node and goes first; what fails there does not reach node2."""
    build_broken(imaged, "a-unit-fails")
    document = imaged.gpuadmin("push-image", "a-unit-fails", "--canary", "1", "--yes", code=3)
    assert document["hosts"]["node1"]["status"] == "failed"
    assert document["result"]["untouched"] == ["node2"]
    assert running(imaged, "node1") == "one"
    assert words(imaged, "node2").get("trial", "") == ""


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ("fallocate -l $(($(df --output=avail -B1 /local | tail -1) - 300000000)) /local/filler", "GB are free"),
        ("date --set 2001-01-01", "clock is wrong"),
    ],
)
def test_a_node_that_cannot_take_it(imaged: Cluster, spoil: str, expected: str) -> None:
    imaged.admin("node2", spoil)
    document = imaged.gpuadmin("push-image", "one", "--yes", code=3)
    assert expected in document["hosts"]["node2"]["message"]
    assert running(imaged, "node2") == "base"
    imaged.admin("node2", f"rm -f /local/filler; date --set @{time.time():.0f}")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"

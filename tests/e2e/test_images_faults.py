"""Images when power, images, networks and disks misbehave. The matrix is long: `make test-faults` runs all of it."""

from __future__ import annotations

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
SLOW = pytest.mark.slow
#: The most telling ones run in `make test`, too.
TELLING = {"root:written", "trial:after", "health:after"}
#: Power cuts, at every point that the one list of steps knows.
POINTS = [point if point in TELLING else pytest.param(point, marks=SLOW) for point in switch.fault_points()]


@pytest.mark.parametrize("point", POINTS)
def test_power_cut_at_each_step(imaged: Cluster, point: str) -> None:
    """The node boots by itself into old or new, itself and closed, with its people; a second push completes."""
    before, verified = identity(imaged, "node2"), dpkg_verify(imaged, "node2")
    cut_power_at(imaged, "node2", point)
    assert running(imaged, "node2") in ("base", "one")
    assert words(imaged, "node2")["current"] == running(imaged, "node2")
    assert_sound(imaged, "node2", before, verified)
    assert imaged.person("minji", "node2", "id -un").strip() == "minji"

    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2").partition("+")[0] == "one"
    assert words(imaged, "node2")["current"] == running(imaged, "node2")
    assert_sound(imaged, "node2", before, verified)
    mount = "mkdir -p /run/top; mount -o subvolid=5 LABEL=gpuadmin /run/top"
    assert imaged.admin("node2", f"{mount}; ls /run/top/incoming; umount /run/top").strip() == ""


@pytest.mark.parametrize("name", [name if "without" in name else pytest.param(name, marks=SLOW) for name in BROKEN])
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


@pytest.mark.parametrize("point", ["fetch:middle", pytest.param("root:written", marks=SLOW)])
def test_kill_of_the_work_on_the_node(imaged: Cluster, point: str) -> None:
    before, verified = identity(imaged, "node2"), dpkg_verify(imaged, "node2")
    arm(imaged, "node2", point, "kill")
    document = imaged.gpuadmin("push-image", "one", "--yes", code=3)
    assert "ended from outside" in document["hosts"]["node2"]["message"]
    disarm(imaged, "node2")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"
    assert_sound(imaged, "node2", before, verified)


@SLOW
@pytest.mark.parametrize("point", ["fetch:middle", "trial:before"])
def test_kill_of_the_controller(imaged: Cluster, point: str) -> None:
    since = arm(imaged, "node2", point)
    push = imaged.start("push-image", "one", "--yes", "--json")
    wait_for_fault(imaged, "node2", point, push, since)
    push.kill()
    push.communicate(timeout=60)
    # what it started goes on without it; here it is held for good, and ended by an admin
    disarm(imaged, "node2")
    imaged.admin("node2", "systemctl stop gpuadmin-image.service")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"


@SLOW
def test_the_store_goes_away(imaged: Cluster) -> None:
    since = arm(imaged, "node2", "fetch:before")
    push = imaged.start("push-image", "one", "--yes", "--json")
    wait_for_fault(imaged, "node2", "fetch:before", push, since)
    imaged.lab("power-cut", "storage1")
    disarm(imaged, "node2")
    imaged.admin("node2", "systemctl kill --signal=KILL gpuadmin-image.service || true")
    push.communicate(timeout=600)
    assert push.returncode == 3
    assert running(imaged, "node2") == "base"
    imaged.lab("start", "storage1")
    imaged.gpuadmin("push-image", "one", "--yes")
    assert running(imaged, "node2") == "one"


@SLOW
def test_the_first_failed_batch_is_the_last(imaged: Cluster) -> None:
    """node1 is the golden node and goes first; what fails there does not reach node2."""
    build_broken(imaged, "a-unit-fails")
    document = imaged.gpuadmin("push-image", "a-unit-fails", "--canary", "1", "--yes", code=3)
    assert document["hosts"]["node1"]["status"] == "failed"
    assert document["result"]["untouched"] == ["node2"]
    assert running(imaged, "node1") == "one"
    assert words(imaged, "node2").get("trial", "") == ""


@SLOW
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

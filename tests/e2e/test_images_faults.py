"""Images when power, images, networks and disks misbehave. The matrix is long: `make test-faults` runs all of it."""

import json
import sys
import time
from pathlib import Path

import pytest

from tests.support.imaging import (
    Whole,
    arm,
    build_broken,
    cut_power,
    cut_power_at,
    disarm,
    node_report,
    restore,
    running,
    wait_for_fault,
    words,
)
from tests.support.lab_cluster import Cluster
from tests.support.where import IMAGE

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gpuadmin" / "collections"))
from ansible_collections.gpuadmin.node.plugins.module_utils.images import switch

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.virtual(IMAGE)]


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


def test_power_cut_at_each_step_of_the_trial(armed: Cluster) -> None:
    """A node that is ready is rebooted, and cut in each step of its trial; from the commit on it boots the new root."""
    whole = Whole(armed)
    for point in switch.fault_points("boot"):
        print(point)  # pytest shows it where the test fails
        restore(armed, "armed")
        since = arm(armed, "node2", point)
        armed.ssh("admin", "node2", "sudo systemctl reboot")
        wait_for_fault(armed, "node2", point, None, since)
        cut_power(armed, "node2")
        whole.check("one" if point in ("commit:after", "prune:before", "prune:after") else "base")
    whole.complete()


def test_bad_images_fall_back_by_themselves(imaged: Cluster) -> None:
    """One bad image after the other; two more are in test_images and in the test of the first failed batch."""
    whole = Whole(imaged)
    for name in ("panics-without-init", "panics-in-userspace", "hangs-as-init", "hangs-before-login"):
        print(name)  # pytest shows it where the test fails
        build_broken(imaged, name)
        push = ("push-image", name, "--limit", "node2", "--deadline", "150", "--yes")
        document = imaged.gpuadmin(*push, code=3)
        assert "(it runs base)" in document["hosts"]["node2"]["message"]
        whole.check("base")
        assert name in node_report(imaged, "node2")["refused"]
    whole.complete()


def test_the_first_failed_batch_is_the_last(imaged: Cluster) -> None:
    """node1 is the golden node and goes first; what fails there does not reach node2."""
    whole = Whole(imaged, "node1")
    build_broken(imaged, "a-unit-fails")
    document = imaged.gpuadmin("push-image", "a-unit-fails", "--canary", "1", "--yes", code=3)
    assert document["hosts"]["node1"]["status"] == "failed"
    assert document["result"]["untouched"] == ["node2"]
    whole.check("one")
    assert words(imaged, "node2").get("trial", "") == ""


def test_work_and_controller_are_killed(imaged: Cluster) -> None:
    """The work on the node twice, then the controller; what that started goes on, and the next push waits for it."""
    whole = Whole(imaged)
    for point in ("fetch:middle", "root:written"):
        arm(imaged, "node2", point, "kill")
        document = imaged.gpuadmin("push-image", "one", "--yes", code=3)
        assert "ended from outside" in document["hosts"]["node2"]["message"]
        whole.check("base")
    kill_controller_at(imaged, "trial:before")
    whole.complete()


def test_the_controller_is_killed_in_mid_fetch(imaged: Cluster) -> None:
    kill_controller_at(imaged, "fetch:middle")
    assert_ready(imaged)


def kill_controller_at(cluster: Cluster, point: str) -> None:
    since = arm(cluster, "node2", point)
    push = cluster.start("push-image", "one", "--yes", "--json")
    wait_for_fault(cluster, "node2", point, push, since)
    push.kill()
    push.communicate(timeout=60)
    disarm(cluster, "node2")


def assert_ready(cluster: Cluster) -> None:
    """A push to node2 completes, up to the reboot."""
    cluster.gpuadmin("push-image", "one", "--no-reboot", "--yes")
    assert running(cluster, "node2") == "base"
    assert words(cluster, "node2")["trial"] == "one"


def test_a_node_that_cannot_take_it(imaged: Cluster) -> None:
    """No space, a wrong clock, a store that goes away: a sentence, and nothing is changed; then it is mended."""
    imaged.admin("node2", "btrfs subvolume create /local/full")  # what root keeps free of /local itself is for images
    fill = "fallocate -l $(($(df --output=avail -B1 /local/full | tail -1) - 300000000)) /local/full/filler"
    for spoil, expected in ((fill, "are free"), ("date --set 2001-01-01", "clock is wrong")):
        imaged.admin("node2", spoil)
        document = imaged.gpuadmin("push-image", "one", "--yes", code=3)
        assert expected in document["hosts"]["node2"]["message"]
        assert running(imaged, "node2") == "base"
        imaged.admin("node2", f"rm -f /local/full/filler; date --set @{time.time():.0f}")

    # in the middle of a fetch: not a process that hangs, either
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
    assert_ready(imaged)

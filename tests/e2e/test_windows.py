"""A window of maintenance: what would run into it waits, what fits starts, and it is moved and called off."""

import json
import time
from typing import Any

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]  # light hosts, which have GPUs


def _maintain(cluster: Cluster, *words: str) -> dict[str, Any]:
    """Options come before hosts and verbs."""
    process = cluster.start("maintain", "--json", *words)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-2000:]
    return dict(json.loads(out)["result"])


def _announced(cluster: Cluster) -> list[str]:
    return [one["id"] for one in _maintain(cluster)["announcements"] if one["state"] == "announced"]


def _times(begin: float, until: float) -> tuple[str, ...]:
    texts = [time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + 60 * one)) for one in (begin, until)]
    return "--from", texts[0], "--until", texts[1]


def _runs(cluster: Cluster) -> int:
    found = cluster.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"]
    return sum(1 for one in found if not one["place"])


def test_a_window_is_held(with_queue: Cluster) -> None:
    with queued(with_queue) as cluster:
        first = _maintain(cluster, *_times(100, 160), "--reason", "new driver", "--yes", "node1,node2")["id"]
        cluster.person("jiho", "node2", "gpu get 1 --hours 2 --no-wait")
        assert "on node" in cluster.person("minji", "node2", "gpu get 1 --hours 1"), "what fits starts"
        assert _runs(cluster) == 1
        why = cluster.person("jiho", "node1", "gpu why")
        assert "Maintenance of a node begins before the job would end" in why
        assert "Maintenance: node1, node2 from" in why
        assert "점검: node1, node2" in cluster.admin("node1", "cat /run/motd.d/gpuadmin-announcements")
        # moved to the day after, it is in nobody's way
        moved = _maintain(cluster, "--move", first, *_times(1540, 1600), "--yes")["id"]
        cluster.wait(lambda: cluster.ssh("jiho", "node1", "gpu why | grep until"), seconds=120)
        assert _announced(cluster) == [moved]
        _maintain(cluster, "--cancel", moved, "--yes")
        assert _announced(cluster) == []
        assert "gpuadmin-window" not in cluster.admin(CONTROLLER, "scontrol show reservation")
        assert not cluster.ssh("admin", "node1", "ls /run/motd.d/gpuadmin-announcements").stdout
        # at its time its verb runs, and then it is over
        verb = ("run", "node2", "--", "touch /run/done")
        now = _maintain(cluster, *_times(-1, 60), "--reason", "x", "--yes", "node2", "--", *verb)
        assert "State=ACTIVE" in cluster.admin(CONTROLLER, "scontrol show reservation")
        _maintain(cluster, "--begin", now["id"], "--yes")
        cluster.admin("node2", "ls /run/done")
        assert _announced(cluster) == []
        assert _runs(cluster) == 2, "what ran goes on"

"""The cluster with a monitor host, for the tests that need one. Set up once."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.lab_cluster import Cluster

MONITOR = "monitor: {hosts: {storage1: {}}}\n"
STATE = "watched"

INTERVAL = 10  # seconds between two looks at a host

SETTINGS = f"""
mail: {{host: 127.0.0.1, port: 2525, security: none, sender: gpu@example.org}}
metrics: {{interval: {INTERVAL}, mail_to: [admins@example.org]}}
"""


@contextmanager
def monitor_host(cluster: Cluster) -> Iterator[None]:
    """storage1 is in the group monitor, and nothing is set up for it."""
    path = cluster.site / "inventory/monitor.yml"
    path.write_text(MONITOR)
    try:
        yield
    finally:
        path.unlink()


QUERY = (
    "import json, sys, urllib.parse, urllib.request as u; "
    'print(json.dumps(json.load(u.urlopen("http://127.0.0.1:9090/api/v1/query?query=" '
    '+ urllib.parse.quote(sys.argv[1]), timeout=20))["data"]))'
)


def asked(cluster: Cluster, query: str) -> list[dict[str, Any]]:
    """What Prometheus on the monitor host answers: labels and value of each sample."""
    data = json.loads(cluster.admin("storage1", shlex.join(["python3", "-c", QUERY, query])))
    return [{**one["metric"], "value": float(one["value"][1])} for one in data["result"]]


def within(seconds: float, look: Callable[[], Any]) -> Any:
    """Look again until there is something; what there is then."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{look} waited {seconds} s in vain"
        time.sleep(2)  # between two looks at what changes every ten seconds
    return found


@pytest.fixture
def watched(provisioned: Cluster) -> Iterator[Cluster]:
    """The cluster with storage1 as its monitor host, and minji on it; nobody holds a GPU yet. Set up once and saved."""

    def set_up() -> None:
        provisioned.gpuadmin("provision", "--yes")
        provisioned.add("minji")

    with provisioned.settings(lambda text: f"{text}\n{SETTINGS.lstrip()}"), monitor_host(provisioned):
        provisioned.begin(STATE, set_up)
        yield provisioned


def link(cluster: Cluster, name: str, node: str) -> str:
    """The link that somebody is given on a node."""
    (found,) = [
        line.strip() for line in cluster.person(name, node, "gpuadmin-me web").splitlines() if "https://10." in line
    ]
    return found

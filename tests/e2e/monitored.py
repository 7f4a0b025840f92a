"""The cluster with a monitor host, for the tests that need one. Set up once for each of their sets of settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.cluster import Cluster

MONITOR = "monitor: {hosts: {storage1: {}}}\n"


@contextmanager
def monitor_host(cluster: Cluster) -> Iterator[None]:
    """storage1 is in the group monitor, and nothing is set up for it."""
    path = cluster.site / "inventory/monitor.yml"
    path.write_text(MONITOR)
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def monitored(cluster: Cluster, state: str, more: str = "") -> Iterator[None]:
    """storage1 is the monitor host, set up. `state`: what the lab's snapshot of that is called; `more`: settings."""
    settings = cluster.site / "gpuadmin.yml"
    before = settings.read_text()
    for key in ("mail", "metrics"):  # a session that was killed may have left them
        before = before.partition(f"\n{key}: ")[0]
    settings.write_text(f"{before}\n{more.lstrip()}" if more else before)
    try:
        with monitor_host(cluster):
            if state in cluster.saved_states():
                cluster.restore(state)
            else:
                cluster.gpuadmin("provision", "--yes")
                cluster.lab("save", state)
            yield
    finally:
        settings.write_text(before)

"""Which host of a site has the dashboard."""

from __future__ import annotations

from gpuadmin.config.inventory import Host
from gpuadmin.config.load import Site


def dashboard_host(site: Site) -> Host | None:
    """The host of the group monitor that shows the dashboard; None if a site has none, or wants none."""
    hosts = site.inventory.group("monitor") if site.settings.metrics.dashboard.enabled else ()
    return hosts[0] if hosts else None

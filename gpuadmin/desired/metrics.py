"""The variables of the roles for measurements, alerts and the dashboard."""

from __future__ import annotations

import re
from typing import Any

from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import has_notebooks, is_address
from gpuadmin.config.schema.notebooks import Notebooks
from gpuadmin.config.schema.timers import Timers
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.shared import shares

_WEB_SETTINGS = "/etc/gpuadmin/node-exporter-web.yml"


def dashboard(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `dashboard`. ``notebooks``: where nodes are asked for them."""
    page, journals = cluster.metrics.get("dashboard", {}), cluster.site.metrics.journals
    texts = ("secret", "proxy_secret", "certificate", "key", "authority", "buttons", "buttons_authority")
    return {
        "enabled": cluster.site.metrics.dashboard.enabled,
        "front_port": (cluster.site.notebooks or Notebooks()).front_port,
        "settings": page.get("settings", {}),
        "journals": {
            "hosts": [one["name"] for one in cluster.metrics.get("targets", [])] if journals.enabled else [],
            "authority": cluster.metrics.get("journals_authority", ""),
            "days": journals.keep_days,
            "bytes": journals.host_mb * 10**6,
        },
        "notebooks": [
            {"name": one.name, "address": one.cluster_address}
            for one in cluster.members("gpu")
            if has_notebooks(cluster.site, cluster.hosts, one) and is_address(one.cluster_address)
        ],
        **{name: page.get(name) or "" for name in texts},
    }


def metrics_tls(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `metrics_tls`."""
    own = cluster.metrics.get("hosts", {}).get(host.name, {})
    sends = cluster.site.metrics.journals.enabled and cluster.site.metrics.dashboard.enabled
    address = next(iter(cluster.addresses("monitor")), "") if sends else ""
    return {
        "settings": _WEB_SETTINGS,
        "journals": f"https://{f'[{address}]' if ':' in address else address}:19532" if address else "",
        "sender": cluster.metrics.get("senders", {}).get(host.name, {"key": "", "certificate": ""}),
        "authority": cluster.metrics.get("authority", ""),
        "certificate": own.get("certificate", ""),
        "key": own.get("key", ""),
    }


def monitoring(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `monitoring`."""
    given, scraper = cluster.metrics, cluster.metrics.get("scraper", {})
    section = cluster.plain["metrics"]
    return {
        **{name: value for name, value in section.items() if name != "power_budgets"},
        "cluster": cluster.site.name,
        "targets": given.get("targets", []),
        "authority": given.get("authority", ""),
        "certificate": scraper.get("certificate", ""),
        "key": scraper.get("key", ""),
        "keep_bytes": section["keep_gb"] * 10**9,
        "sensors": given.get("sensors", []),
        "budgets": [
            {
                "place": place,
                "watts": watts,
                "hosts": "|".join(re.escape(one.name) for one in cluster.hosts if place in one.place),
            }
            for place, watts in cluster.site.metrics.power_budgets.items()
        ],
        "mail": given.get("mail", {}),
        "mail_password": given.get("password", ""),
        "mail_ca": given.get("ca", ""),
        "webhook": section["webhook"] or "",
        "heartbeat": section["heartbeat"] or "",
    }


def node_metrics(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `node_metrics`."""
    idle = cluster.asked("idle", {}).get(host.name, {})
    return {
        "collector": "gpu" in host.groups,
        "gpus": host.variables.get("gpus"),
        "port": cluster.site.metrics.exporter_port,
        "web_settings": _WEB_SETTINGS,
        "homes": cluster.storage(host, cluster.plain["homes"]["export"]),
        "docker": cluster.docker_data(host),
        "scratch": cluster.node(host, cluster.plain["reset"]["scratch"], []),
        "shared": cluster.storage(host, [one["path"] for one in shares(cluster)], []),
        "disk_names": cluster.asked("disk_names", []),
        "timers": "monitor" in host.groups and cluster.site.timers is not None,
        "idle_tell": idle.get("tell", []),
        "idle_stop": idle.get("stop", []),
    }


def timers(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `timers`."""
    section = cluster.site.timers or Timers.model_construct(verbs=[])
    idle, command = section.shutdown, ""
    if idle is not None:
        # of letters, digits and signs that neither a shell nor systemd reads in another way (IdleShutdown)
        place = f' --place "{idle.place}"' if idle.place else ""
        command = f"shutdown {idle.hosts} --idle {idle.nodes}{place} --yes"
    return {**section.model_dump(mode="json"), "shutdown": {"when": idle.when if idle else "", "command": command}}


def web_link(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `web_link`."""
    page = cluster.metrics.get("dashboard", {})
    return {
        "enabled": cluster.site.metrics.dashboard.enabled,
        "way": page.get("ways", {}).get(host.name, {}),
        "key": page.get("links", {}).get(host.name, ""),
    }

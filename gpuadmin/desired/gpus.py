"""GPUs: the site's section `gpus` for a host, and the variables of the role that sets them up."""

from __future__ import annotations

from typing import Any

from gpuadmin.config.host_variables import SETTINGS
from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import takes_jobs
from gpuadmin.desired.cluster import Cluster


def merge_gpu_settings(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The site's section `gpus`. What the inventory says of this host wins."""
    own = {field: host.variables[name] for name, field in SETTINGS.items() if host.variables.get(name) is not None}
    return {**cluster.plain["gpus"], **own}


def find_power_cap(cluster: Cluster, host: Host) -> int | None:
    """How many watts each GPU of a host may draw; of the models that fit the one that says most of it."""
    cap, model = merge_gpu_settings(cluster, host)["power_cap"], str(host.variables.get("gpu_model") or "").casefold()
    if not isinstance(cap, dict):
        return None if cap is None else int(cap)
    return next((int(cap[one]) for one in sorted(cap, key=len, reverse=True) if one.casefold() in model), None)


def gpu_stack(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `gpu_stack`. `grant` and `end`: what a verb asks of this host."""
    found = merge_gpu_settings(cluster, host)
    queue, homes = takes_jobs(cluster.site, cluster.hosts, host), cluster.plain["homes"]["path"]
    return {
        **found,
        "queue": queue,
        # where there is a queue it decides
        "self_service": None if queue or found["access"] != "granted" else found["self_service"],
        "languages": cluster.languages,
        "version": found["version"] or "",
        "gpus": host.variables.get("gpus"),
        "power_cap": find_power_cap(cluster, host),
        "health": {
            **found["health"],
            "disks": ["/", "/var", *([docker] if (docker := cluster.docker_data(host)) else [])],
            "homes": homes if cluster.members("storage") and "storage" not in host.groups else "",
            "gpus": host.variables.get("gpus"),
            "model": host.variables.get("gpu_model") or "",
        },
        "health_checks": cluster.asked("health_checks", ""),
        "burn_in": {**cluster.asked("burn_in", {}), "node": host.name if queue else ""},
        # numbers are no keys of JSON
        "mig": None if found["mig"] is None else {str(gpu): list(one) for gpu, one in found["mig"].items()},
        "mig_gpus": cluster.asked("divide_gpus", {}).get(host.name),
        "mig_waiting": cluster.asked("divide_waiting", ""),
        "exempt": [cluster.plain["admin"]["user"]],
        "grant": cluster.asked("grant", {}).get(host.name),
        "end": cluster.asked("grants_end", {}).get(host.name, []),
    }

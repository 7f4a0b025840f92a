"""Images: the variables of the roles that build, keep and try them."""

from __future__ import annotations

from typing import Any

from gpuadmin.config.host_variables import SETTINGS
from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import takes_jobs
from gpuadmin.desired.cluster import Cluster


def btrfs_root(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `btrfs_root`."""
    images = cluster.plain["images"]
    server = cluster.server(cluster.site.images.server)
    return {
        **{name: images[name] for name in ("deadline", "settle", "identity")},
        "store": "" if server is None else f"{server.cluster_address}:{images['store']}",
        **cluster.only(signers="signers"),
        "gpus": host.variables.get("gpus"),
        "gpu_model": host.variables.get("gpu_model") or "",
        "gpus_worse": gpus(cluster, host)["worse"],
        "homes": cluster.plain["homes"]["path"],
        "site_checks": cluster.asked("site_checks", ""),
        **cluster.uids,
    }


def gpus(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The site's section `gpus`. What the inventory says of this host wins."""
    own = {field: host.variables[name] for name, field in SETTINGS.items() if host.variables.get(name) is not None}
    return {**cluster.plain["gpus"], **own}


def find_power_cap(cluster: Cluster, host: Host) -> int | None:
    """How many watts each GPU of a host may draw; of the models that fit the one that says most of it."""
    cap, model = gpus(cluster, host)["power_cap"], str(host.variables.get("gpu_model") or "").casefold()
    if not isinstance(cap, dict):
        return None if cap is None else int(cap)
    return next((int(cap[one]) for one in sorted(cap, key=len, reverse=True) if one.casefold() in model), None)


def gpu_stack(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `gpu_stack`. `grant` and `end`: what a verb asks of this host."""
    found = gpus(cluster, host)
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


def install(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `install`. `order`: of a disk; `stick`: of a stick; `netboot`: who boots from the network."""
    return {
        "order": cluster.asked("install", {}),
        "stick": cluster.asked("stick", {}),
        "netboot": cluster.asked("netboot", {}),
        "address": host.cluster_address,
        "reboot": cluster.asked("install_reboot", False),
        "run_id": cluster.asked("run_id", ""),
        "store": cluster.plain["images"]["store"],
    }


def image_build(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `image_build`."""
    asked = cluster.asked
    return {
        **cluster.only(name="image"),
        "packages": asked("packages", []),
        "upgrade": asked("upgrade", False),
        "full": asked("full", False),
        "trial": asked("trial", True),
        "parents": asked("parents", []),
        "protocol": asked("protocol", 1),
        "who": asked("who", ""),
        "run_id": asked("run_id", ""),
        "key": asked("signing_key", ""),
    }


def image_store(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `image_store`."""
    return {
        "path": cluster.plain["images"]["store"],
        "mountpoint": cluster.plain["homes"]["mountpoint"],
        "readers": cluster.addresses("gpu"),
        "writers": cluster.addresses("golden"),
        **cluster.only(signers="signers"),
        "verify": cluster.asked("verify_images", []),
        "delete": cluster.asked("delete_images", []),
    }


def image_switch(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `image_switch`."""
    images, asked = cluster.plain["images"], cluster.asked
    return {
        "name": asked("image", ""),
        "action": asked("switch_action", "push"),
        "full": asked("full", False),
        "links": asked("links", {}),
        "chain_key": asked("chain_key", ""),
        "keep": asked("keep", images["keep"]),
        "reboot": asked("reboot", True),
        "force": asked("force", False),
        "when_idle": asked("when_idle", False),
        "deadline": asked("deadline", images["deadline"]),
        "reason": asked("reason", ""),
        "waiting": asked("waiting", ""),
        "run_id": asked("run_id", ""),
    }

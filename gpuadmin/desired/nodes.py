"""Looking at hosts, and switching them off: the variables of the roles `node_state` and `power`."""

from __future__ import annotations

from datetime import date
from typing import Any

from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import there
from gpuadmin.config.schema.hosts import DeclaredAdmin
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.shared import mounts, shares

_EPOCH = date(1970, 1, 1)


def node_state(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `node_state`. `person`: whom to diagnose (name, uid); empty: only the host."""
    site = cluster.plain
    homes, copies = site["homes"], site["backups"]["copies"]
    docker = cluster.docker_data(host)
    disks = [
        *cluster.storage(host, [{"name": "homes", "path": homes["export"]}], []),
        *([{"name": "Docker", "path": docker}] if docker else []),
        *([{"name": "second copies", "path": copies}] if "backup" in host.groups else []),
    ]
    return {
        "look_at": [
            *cluster.node(host, [homes["path"], site["docker"]["data"]], []),
            *cluster.storage(host, [homes["export"], *([homes["mountpoint"]] if homes["mountpoint"] else [])], []),
            *(one["where"] for one in mounts(cluster, host)["wanted"]),
        ],
        "is_node": "gpu" in host.groups,
        "queue": there(cluster.site, cluster.hosts) and "slurm" in host.groups,
        "disks": disks,
        "backups": cluster.kept_backups(host),
        "packages": cluster.node(host, site["nodes"]["packages"], []),
        "gpus": host.variables.get("gpus"),
        "gpu_model": host.variables.get("gpu_model") or "",
        "person": cluster.asked("person", {}) or None,
        "trial": cluster.asked("trial", False),
        "homes": cluster.node(host, homes["path"], homes["export"]),
        "docker": docker,
        "admin": site["admin"]["user"],
        "declared": cluster.asked("declared", []),
        "aside": _aside(cluster, host),
        "sections": cluster.asked("sections", []),
        "admins": [_admin(one) for one in cluster.site.admins or ()],
        "languages": cluster.languages,
        "upgrade": cluster.asked("upgrade", {}),
        "people_homes": homes["path"],
        "people": _of_people(cluster, host),
        "servers": cluster.addresses("storage"),
        "nodes": [{"name": one.name, "address": one.cluster_address} for one in cluster.members("gpu")],
        **cluster.uids,
    }


def _admin(one: DeclaredAdmin) -> dict[str, Any]:
    """A declared admin, as the operation `admins` takes it. The day after the last one is the first without."""
    expires = None if one.until is None else (one.until - _EPOCH).days + 1
    return {"name": one.name, "uid": one.uid, "keys": list(one.keys), "sudo": one.sudo, "expires": expires}


def _of_people(cluster: Cluster, host: Host) -> list[str]:
    """Directories with one of each person's in them; homes only where they are served, and not on each node."""
    site = cluster.plain
    return [*cluster.own_scratch(host), *cluster.storage(host, [site["homes"]["export"]], [])]


def _aside(cluster: Cluster, host: Host) -> list[str]:
    """Where people's files are. `drift` does not look there for who could become root."""
    site = cluster.plain
    docker = [site["docker"]["data"]] if site["docker"]["enabled"] else []
    stored = [site["homes"]["export"], site["images"]["store"], cluster.backups(host)]
    return [
        *cluster.node(host, [site["homes"]["path"], *docker], []),
        *cluster.own_scratch(host),
        *cluster.storage(host, [*stored, cluster.archive], []),
        *cluster.storage(host, [one["path"] for one in shares(cluster) if not one["backup"]], []),
        *(one["where"] for one in mounts(cluster, host)["wanted"]),
        *([site["backups"]["copies"]] if "backup" in host.groups else []),
    ]


def power(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `power`."""
    asked = cluster.asked
    return {
        "action": asked("power_action", "reboot"),
        "step": asked("power_step", "switch"),
        "more_seconds": asked("more_seconds", 0),
        "node": "gpu" in host.groups,
        "serves": bool({"storage", "backup"} & set(host.groups)),
        "force": asked("force", False),
        "when_idle": asked("when_idle", False),
        "homes": cluster.plain["homes"]["path"],
        "reason": asked("reason", ""),
        "waiting": asked("waiting", ""),
        **cluster.uids,
    }

"""Looking at hosts, and switching them off: the variables of the roles `node_state` and `power`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import there
from gpuadmin.config.schema import Settings
from gpuadmin.config.schema.bmc import HostBmc
from gpuadmin.config.schema.hosts import DeclaredAdmin
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.gpus import find_power_cap
from gpuadmin.desired.shared import mounts, shares

_EPOCH = date(1970, 1, 1)


def node_state(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `node_state`. `person`: whom to diagnose (name, uid); empty: only the host."""
    site = cluster.plain
    homes, copies = site["homes"], cluster.backups(host)
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
        "packages": [*cluster.node(host, site["nodes"]["packages"], []), *_bmc_tools(cluster, host)],
        "gpus": host.variables.get("gpus"),
        "gpu_model": host.variables.get("gpu_model") or "",
        "power_cap": find_power_cap(cluster, host),
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
        "people": _people_places(cluster, host),
        "servers": cluster.addresses("storage"),
        "nodes": [{"name": one.name, "address": one.cluster_address} for one in cluster.members("gpu")],
        **cluster.uids,
    }


def find_bmc(settings: Settings, host: Host) -> HostBmc | None:
    """A host's BMC: the host's own settings above what all have in common; None where the inventory has none."""
    own = host.variables.get("bmc")
    return None if own is None else HostBmc.model_validate({**settings.bmc.model_dump(exclude_unset=True), **own})


def find_askers(settings: Settings, hosts: Sequence[Host]) -> list[str]:
    """The hosts that ask BMCs, the first one first."""
    if settings.bmc.via is not None:
        return [settings.bmc.via]
    found = [one for group in ("storage", "monitor", "backup") for one in hosts if group in one.groups]
    # guard: a BMC's password goes to no node where the site does not say so
    return list(dict.fromkeys(one.name for one in found if "gpu" not in one.groups))


def _bmc_tools(cluster: Cluster, host: Host) -> list[str]:
    asks = host.name in find_askers(cluster.site, cluster.hosts)
    kinds = {bmc.kind for one in cluster.hosts if asks and (bmc := find_bmc(cluster.site, one)) is not None}
    return [{"ipmi": "ipmitool", "redfish": "curl"}[kind] for kind in sorted(kinds - {"wol"})]


def _admin(one: DeclaredAdmin) -> dict[str, Any]:
    """A declared admin, as the operation `admins` takes it. The day after the last one is the first without."""
    expires = None if one.until is None else (one.until - _EPOCH).days + 1
    return {"name": one.name, "uid": one.uid, "keys": list(one.keys), "sudo": one.sudo, "expires": expires}


def _people_places(cluster: Cluster, host: Host) -> list[str]:
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
        *([cluster.backups(host)] if "backup" in host.groups else []),
    ]


def power(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `power`."""
    asked = cluster.asked
    return {
        "action": asked("power_action", "reboot"),
        "step": asked("power_step", "switch"),
        "more_seconds": asked("more_seconds", 0),
        "node": "gpu" in host.groups,
        "serves": host.serves,
        "force": asked("force", False),
        "when_idle": asked("when_idle", False),
        "homes": cluster.plain["homes"]["path"],
        "reason": asked("reason", ""),
        "waiting": asked("waiting", ""),
        **cluster.only(bmcs="bmcs", switch="bmc_switch", hard="bmc_hard", seconds="bmc_seconds"),
        **cluster.only(answering="bmc_answering"),
        **cluster.uids,
    }

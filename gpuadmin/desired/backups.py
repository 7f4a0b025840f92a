"""Backups and second copies: the variables of the role `backups`."""

from __future__ import annotations

from typing import Any

from gpuadmin.config.inventory import Host
from gpuadmin.desired.cluster import Cluster

_KEY = "/var/lib/gpuadmin/backup_key"
_KNOWN_HOSTS = "/var/lib/gpuadmin/backup_known_hosts"


def backups(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `backups`."""
    homes, asked = cluster.plain["homes"], cluster.asked("backup", {})
    return {
        **cluster.plain["backups"],
        "root": homes["export"],
        "mountpoint": homes["mountpoint"],
        "directory": cluster.backups(host),
        "copies": next(map(cluster.backups, cluster.members("backup")), cluster.plain["backups"]["copies"]),
        "remote": _remote(cluster, host),
        # the database is where the queue is; what another host has is not this one's to save
        "accounting": cluster.site.slurm is not None and {"slurm", "storage"} <= set(host.groups),
        "name": asked.get("name"),
        "users": asked.get("users"),
        "only": asked.get("only", {}).get(host.name, []),
        "restore": asked.get("restore", {}),
        "restore_all": asked.get("restore_all", {}),
        "run_id": cluster.asked("run_id", ""),
        "promote": cluster.asked("promote", {}),
        "moves": bool(cluster.asked("former", {})),  # homes are served from elsewhere from now on, and that was shown
    }


def _remote(cluster: Cluster, host: Host) -> dict[str, Any] | None:
    """The host of the second copies; `source`: the address that this host calls from, if it is known."""
    absent = cluster.asked("former", {}).get("absent")  # it takes copies once it is back, and provisioned
    others = [one for one in cluster.members("backup") if one.name != absent]
    if not others:
        return None
    return {
        "host": others[0].name,
        "address": others[0].cluster_address,
        "port": 22,
        "source": host.cluster_address if host.cluster_address != host.address else None,
        "key": _KEY,
        "known_hosts": _KNOWN_HOSTS,
    }

"""What several people share, and what is mounted: the part of it that a host has."""

from __future__ import annotations

from typing import Any

from gpuadmin.common.amounts import disk_amount
from gpuadmin.common.text import name_unit
from gpuadmin.config.inventory import Host, find_storage
from gpuadmin.config.schema.shared import AMONG_HOMES, PLACE
from gpuadmin.desired.cluster import Cluster

#: Of every mount: what is on another server makes nobody root here.
_ALWAYS = ("nosuid", "nodev", "_netdev")
_NFS = ("hard", "noatime")
_LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "iso9660")


def shares(cluster: Cluster) -> list[dict[str, Any]]:
    """What people share, as the storage host makes it. `gid`: None where a directory has the group."""
    accounts = cluster.site.accounts
    gids = {one.name: one.gid for one in cluster.site.groups} | {accounts.group: accounts.gid}
    found = []
    for one in cluster.site.shared:
        group = one.group or accounts.group
        above = cluster.plain["homes"]["export"] if one.backup else str(cluster.beside_homes / "shared")
        found.append(
            {
                "name": one.name,
                "path": f"{above}/{AMONG_HOMES if one.backup else ''}{one.name}",
                "group": group,
                "gid": gids[group] if accounts.source == "registry" else None,
                "size": one.size,
                "backup": one.backup,
            }
        )
    return found


def docker_mirror(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `docker_mirror`. Of the cache's size a fifth is for what is just being fetched."""
    docker, server = cluster.site.docker, mirror_host(cluster)
    above = cluster.beside_homes if "storage" in host.groups else "/var/lib"
    size = disk_amount(docker.mirror_size) or 10**15
    return {
        "enabled": server is not None and server.name == host.name,
        "upstream": docker.upstream,
        "directory": f"{above}/gpuadmin-registry",
        "listens": (mirror_url(cluster) or "").removeprefix("http://"),
        "most": size * 4 // 5,
        "fetched": size // 5,
    }


def mirror_host(cluster: Cluster) -> Host | None:
    """The host that has the cache of images; None: the site has none."""
    wanted = cluster.site.docker.mirror if cluster.site.docker.enabled else False
    found = [*cluster.members("storage"), *cluster.members("monitor")] if wanted else []
    return next((host for host in found if wanted in (True, host.name)), None)


def mirror_url(cluster: Cluster) -> str | None:
    """Where people's Docker asks for images first."""
    host = mirror_host(cluster)
    if host is None:
        return None
    address = host.cluster_address
    return f"http://[{address}]:5000" if ":" in address else f"http://{address}:5000"


def mounts(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `mounts`."""
    server, found = find_storage(cluster.hosts, cluster.site.homes.server), []
    if server is not None and "gpu" in host.groups:
        address = server.cluster_address
        found += [_mount(f"{address}:{one['path']}", f"{PLACE}/{one['name']}", None, None) for one in shares(cluster)]
    for one in cluster.site.mounts:
        if {host.name, *host.groups, "all"} & set(one.hosts):
            found.append(_mount(one.source, str(one.at), one.type, one.options))
    return {"wanted": found}


def _mount(what: str, where: str, kind: str | None, options: str | None) -> dict[str, str]:
    options = _options(kind, options)
    return {"what": what, "where": where, "type": kind or "nfs4", "options": options, "unit": name_unit(where)}


def _options(kind: str | None, given: str | None) -> str:
    always = [one for one in _ALWAYS if one != "_netdev" or kind not in _LOCAL]
    return ",".join([*(_NFS if kind in (None, "nfs", "nfs4") else ()), *always, *([given] if given else [])])

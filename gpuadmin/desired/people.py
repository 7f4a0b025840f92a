"""Accounts, homes, Docker and the end of a term: the variables of the roles that deal with people."""

from __future__ import annotations

import json
from typing import Any

from gpuadmin.common.amounts import NONE
from gpuadmin.config.host_variables import LIMITS
from gpuadmin.config.inventory import Host, find_storage
from gpuadmin.config.schema.hosts import AuditSsh
from gpuadmin.config.schema.limits import AMOUNTS, Limits, OwnLimits, any_amount
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.shared import mirror_url, shares


def accounts(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `accounts`."""
    subids = cluster.plain["subids"]
    return {
        **cluster.plain["accounts"],
        **{f"subid_{name}": value for name, value in subids.items()},
        **cluster.people,
        "absent": cluster.absent,
        "groups": cluster.plain["groups"] if cluster.site.accounts.source == "registry" else [],
        "login": "gpu" in host.groups,
        "docker_data": cluster.docker_data(host),
        "scratch": cluster.own_scratch(host),
        "renumber": cluster.asked("renumber", {}).get(host.name),
        "move_homes": cluster.asked("move_homes", {}).get(host.name),
        "site": cluster.names,
        "sshd": sshd_settings(cluster.site.audit.ssh),
        "carried": _carried(cluster, host) if cluster.asked("carried") else None,
    }


def sshd_settings(policy: AuditSsh) -> dict[str, str]:
    """Keyword → value of what `provision` sets of sshd, beside keys and PAM; as sshd -T says it."""
    wanted = {
        **dict.fromkeys(("PasswordAuthentication", "KbdInteractiveAuthentication"), policy.passwords is False and "no"),
        "PermitRootLogin": {"no": "no", "keys": "without-password"}.get(policy.root or ""),
        "ChannelTimeout": policy.idle_minutes and f"session:shell={policy.idle_minutes}m",
    }
    return {keyword: value for keyword, value in wanted.items() if value and policy.set}


def _carried(cluster: Cluster, host: Host) -> dict[str, Any]:
    """Where a host has files of people, when a uid is about to be given to somebody."""
    homes, data = cluster.plain["homes"]["export"], cluster.docker_data(host)
    return {
        "directories": [
            *cluster.storage(host, [homes, f"{homes}/.gpuadmin-wiping", f"{homes}/.gpuadmin-attic"], []),
            *cluster.storage(host, [one["path"] for one in shares(cluster)], []),
            *cluster.node(host, cluster.plain["reset"]["scratch"], []),
            *([] if data is None else [data]),
        ],
        "backups": cluster.kept_backups(host),
    }


def announcements(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `announcements`."""
    return {"entries": cluster.asked("announcements", {}).get(host.name, [])}


def bootstrap(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `bootstrap`."""
    return {"name": cluster.plain["admin"]["user"], "homes": cluster.plain["homes"]["path"], **cluster.uids}


def homes_client(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `homes_client`."""
    homes = cluster.plain["homes"]
    server = find_storage(cluster.hosts, cluster.site.homes.server)
    return {
        "path": homes["path"],
        "export": homes["export"],
        "server": None if server is None else server.cluster_address,
        "former": cluster.asked("former", {}),
    }


def homes_server(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `homes_server`."""
    homes = cluster.plain["homes"]
    return {
        "root": homes["export"],
        "mountpoint": homes["mountpoint"],
        "skeleton": homes["skeleton"],
        **cluster.people,
        "archive": cluster.asked("archive_homes", []),
        "remember": cluster.remembered,
        "forget": cluster.asked("forget", []),
        "clients": cluster.addresses("gpu"),
        "shared": shares(cluster),
        "read_only": host.variables.get("homes_read_only") is True,
    }


def limits(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `limits`. What the inventory says of this host wins."""
    own = {field: host.variables[name] for name, field in LIMITS.items() if host.variables.get(name) is not None}
    section = cluster.site.limits
    found = Limits.model_validate({**(section or Limits()).model_dump(), **own})  # a number of tasks becomes text
    scratch, data = cluster.node(host, cluster.plain["reset"]["scratch"], []), cluster.docker_data(host)
    people = [one for own in found.people if (one := _of_groups(cluster, own)).names]
    own_amounts = [
        {"names": one.names, **{place: getattr(one, place) for place in AMOUNTS}}
        for one in people
        if any(getattr(one, place) is not None for place in AMOUNTS)
    ]
    return {
        **found.model_dump(mode="json", exclude={"people"}),
        "people": [one.model_dump(mode="json", exclude={"groups", *AMOUNTS}) for one in people],
        "amounts": _amounts(cluster),
        "amounts_people": own_amounts,
        "amounts_homes": cluster.storage(host, cluster.plain["homes"]["export"]),
        "amounts_mountpoint": cluster.plain["homes"]["mountpoint"],
        "amounts_data": data,
        "amounts_scratch": cluster.own_scratch(host),
        "amounts_shared": cluster.storage(host, shares(cluster), []),
        "homes": cluster.plain["homes"]["path"],
        "languages": cluster.languages,
        "disk_reserve": NONE if section is None else found.disk_reserve,
        "disk_paths": [
            *scratch,
            *([] if data is None else [data]),
            *cluster.storage(host, [cluster.plain["homes"]["export"]], []),
            *cluster.storage(host, [one["path"] for one in shares(cluster) if not one["backup"]], []),
        ],
        "enabled": section is not None,
        "login": "gpu" in host.groups,
        "admin": cluster.plain["admin"]["user"],
    }


def _of_groups(cluster: Cluster, own: OwnLimits) -> OwnLimits:
    """Somebody's own limits, with whoever is in one of the groups among the names."""
    if not own.groups:
        return own
    members = [one["name"] for one in json.loads(cluster.users) if one.get("group") in own.groups]
    return own.model_copy(update={"names": list(dict.fromkeys([*own.names, *members]))})


def _amounts(cluster: Cluster) -> bool:
    """Whether anybody has an amount of any disk of the site."""
    section = cluster.site.limits
    hosts = [host.variables for host in cluster.hosts]
    return section is not None and any(any_amount(section, hosts, place) for place in AMOUNTS)


def rootless_docker(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `rootless_docker`. `person`: whose daemon to restart (`diagnose --restart-docker`). `move`: what of
    root's is carried to whom (`move-docker`)."""
    move = cluster.asked("move_docker", {}).get(host.name)
    mirror = mirror_url(cluster)
    return {**cluster.plain["docker"], "mirror_url": mirror, "person": cluster.asked("person", {}), "move": move}


def semester(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `semester`."""
    site, term = cluster.plain, cluster.asked("term", {})
    return {
        "phase": cluster.asked("phase", "facts"),
        "people": term.get("people", []),
        "names": cluster.storage(host, term.get("names", []), []),
        "message": term.get("message", ""),
        "grace": term.get("grace", site["reset"]["grace"]),
        "group": site["accounts"]["group"] if site["accounts"]["source"] == "directory" else None,
        "login": "gpu" in host.groups,
        "home_root": cluster.storage(host, site["homes"]["export"]),
        "mountpoint": site["homes"]["mountpoint"],
        "backup_directory": cluster.kept_backups(host),
        "backup": term.get("backup"),
        "wipe": term.get("wipe", []),
        "scratch": term.get("scratch", {}).get(host.name, []),
        "scratch_directories": cluster.node(host, site["reset"]["scratch"], []),
        "docker_data": cluster.docker_data(host),
    }

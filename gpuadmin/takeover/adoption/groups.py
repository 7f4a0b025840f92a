"""Which group each host is in, and why: a guess that says what it is made from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpuadmin.common.text import counted, listed
from gpuadmin.takeover.adoption.conflict import Conflict
from gpuadmin.takeover.adoption.seen import Host, home_root

_STORAGE = re.compile(r"nas|storage|file|home|nfs")
MONITORS = ("prometheus.service", "alertmanager.service")


@dataclass(frozen=True)
class Grouped:
    """A host's groups, and a sentence for each."""

    groups: tuple[str, ...]
    why: tuple[str, ...]


@dataclass(frozen=True)
class Homes:
    """Where people's homes are: the path on nodes, the directory and the host that serve it (None: nobody does).

    `sources`: what nodes of gpuadmin mount there, and so may have mounted already.
    """

    path: str = "/home"
    export: str | None = None
    server: str | None = None
    why: str = ""
    sources: tuple[str, ...] = ()


def find_homes(hosts: Sequence[Host]) -> Homes:
    """Where the homes of most people are on most hosts, and which of the hosts serves them."""
    roots = Counter(home_root(one["home"]) for host in hosts for one in host.people.values())
    path = next((root for root, _ in sorted(roots.items(), key=lambda one: (-one[1], one[0])) if root != "/"), "/home")
    mounted: Counter[str] = Counter()
    for host in hosts:
        found = host.homes(path)
        if found is not None and found["network"] and found["source"] and ":" in found["source"]:
            mounted[found["source"].rpartition(":")[2]] += 1
    for export, count in sorted(mounted.items(), key=lambda one: (-one[1], one[0])):
        for host in hosts:
            # NFSv4 names what is exported from the root of all exports on: the end of a path is all that is sure
            real = next((one for one in host.exported if one == export or one.endswith(export)), None)
            if real is not None:
                why = f"it exports {real}, and {counted(count, 'host mounts', 'hosts mount')} it on {path}"
                return Homes(path, real, host.name, why)
    for host in hosts:
        served = [one for one in host.exported if "home" in one.lower()] or host.exported[:1]
        if served:
            return Homes(path, served[0], host.name, f"it exports {served[0]} by NFS")
    return Homes(path)


def group(hosts: Sequence[Host], homes: Homes) -> dict[str, Grouped]:
    """Each host's groups. One that serves homes is not a node; one of the nodes is golden."""
    storage = homes.server or _without_gpus(hosts, homes.path)
    with_gpus = any(host.has_gpus for host in hosts if host.name != storage)
    golden: str | None = None
    found: dict[str, Grouped] = {}
    for host in hosts:
        groups: list[str] = []
        why: list[str] = []
        if host.name == storage:
            groups.append("storage")
            why.append(
                f"storage: {homes.why or 'it has no GPU that can be seen, and some host has to serve the homes'}"
            )
        elif host.has_gpus or not with_gpus:
            groups.append("gpu")
            why.append(f"gpu: {_gpus(host)}")
            if golden is None:
                golden = host.name
                groups.append("golden")
                why.append("golden: the first of the nodes; another is as good")
        if host.active(*MONITORS) and "gpu" not in groups:
            groups.append("monitor")
            why.append("monitor: Prometheus runs there")
        found[host.name] = Grouped(tuple(groups), tuple(why or ["in no group: it has no GPU and serves no homes"]))
    return found


def _gpus(host: Host) -> str:
    gpus = host.part("gpus")
    if not host.has_gpus or gpus is None:
        return "no GPU can be seen on any host, and people have accounts there"
    names = [one["name"] for one in gpus["bus"]]
    of = f": {listed(sorted(set(names)), 3)}" if names else ", by device files"
    return f"it has {counted(host.has_gpus, 'GPU')}{of}"


def _without_gpus(hosts: Sequence[Host], path: str) -> str | None:
    """Where nobody exports anything: the host without GPUs that has most homes already; None if all have some.

    Where no host has a GPU that can be seen, a name has to say it.
    """
    free = [host for host in hosts if not host.has_gpus]
    if len(free) == len(hosts):
        free = [host for host in hosts if _STORAGE.search(host.name)] if len(hosts) > 1 else []
    return max(free, key=lambda host: (len(host.local_homes(path)), host.name)).name if free else None


def conflicts(hosts: Sequence[Host], groups: Mapping[str, Grouped], others: Collection[str] = ()) -> list[Conflict]:
    """What of the guess nobody can leave as it is. `others`: groups that further hosts of the site are in."""
    found = []
    everywhere = {name for one in groups.values() for name in one.groups} | set(others)
    if "storage" not in everywhere:
        found.append(
            Conflict(
                "no storage host",
                "no host exports homes by NFS, and all have GPUs: gpuadmin check wants a storage host, which people do"
                " not log in to",
                "decide",
                tuple(host.name for host in hosts),
                remedies=(
                    "gpuadmin adopt HOST        # the host that will serve the homes, where there is one",
                    "# or move a host's name from gpu to storage in inventory/hosts.yml",
                ),
            )
        )
    if "gpu" not in everywhere:
        found.append(
            Conflict(
                "no node",
                "no host is in the group gpu: of those named, one serves the homes",
                "decide",
                tuple(host.name for host in hosts),
                remedies=("gpuadmin adopt HOST        # the machines that people log in to",),
            )
        )
    for host in hosts:
        if "storage" in groups[host.name].groups and host.has_gpus:
            found.append(
                Conflict(
                    "storage host with GPUs",
                    f"serves the homes and has {counted(host.has_gpus, 'GPU')}: people do not log in to the host that"
                    " serves the homes, so its GPUs are nobody's",
                    "decide",
                    (host.name,),
                    remedies=("# let another host serve the homes, or leave the GPUs unused",),
                )
            )
        if not groups[host.name].groups:
            found.append(
                Conflict(
                    "no group",
                    "has no GPU that can be seen, and serves no homes; gpuadmin does nothing there",
                    "decide",
                    (host.name,),
                    remedies=("# put it into a group of inventory/hosts.yml, or take it out",),
                )
            )
    return found

"""Slurm: the variables of its roles."""

from __future__ import annotations

import re
from typing import Any

from gpuadmin.common.pressed import PORT
from gpuadmin.common.slurm_releases import find_lacking
from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import has_notebooks, is_address, takes_jobs
from gpuadmin.config.schema.notebooks import Notebooks
from gpuadmin.config.schema.slurm import EVERYBODY, Slurm
from gpuadmin.desired.cluster import Cluster, as_text

#: What starts code-server from a person's JupyterLab, and passes on what its page asks for.
PROXY = "jupyter-server-proxy==4.6.0"
#: What Slurm keeps a job from taking → the controller of cgroup v2 for it. Where it lacks slurmd does not start.
CONTROLLERS = {"cores": "cpuset", "memory": "memory"}


def slurm_controller(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `slurm_controller`."""
    section = cluster.site.slurm or Slurm()
    groups = _groups(section)
    return {
        "enabled": cluster.site.slurm is not None and "slurm" in host.groups,
        "cluster": _name(cluster.site.name),
        "controller": host.name,
        "address": host.cluster_address,
        "constrain": list(section.constrain),
        "oldest": section.oldest,
        "lacks": find_lacking(section.oldest),
        "groups": groups,
        "hours": max(group["hours"] for group in groups),
        "owned": [{"group": one.name, **one.owns.model_dump()} for one in section.groups if one.owns is not None],
        "notice": section.notice,
        "preempted": section.preempted,
        "nodes": [
            {
                "name": one.name,
                "address": one.cluster_address,
                "gpus": one.variables.get("gpus"),
                "model": one.variables.get("gpu_model"),
            }
            for one in cluster.members("gpu")
            if takes_jobs(cluster.site, cluster.hosts, one)
        ],
        "key": cluster.asked("slurm_key", ""),
        "measured": bool(cluster.members("monitor")),
        "drain": cluster.asked("drain"),
        "exception": cluster.asked("exception"),
        "cancel": cluster.asked("cancel", []),
        "cancel_why": cluster.asked("cancel_why", ""),
        # backups are of what a storage host has
        "dump": f"{cluster.plain['homes']['export']}/_slurm" if "storage" in host.groups else "",
        "door": _door(cluster, section) if "storage" in host.groups else {},
        **cluster.people,
        "absent": cluster.absent,
        "addresses": None if (found := cluster.asked("addresses")) is None else as_text(found),
        "mail": {**cluster.asked("slurm_mail", {}), "languages": cluster.languages},
    }


def _door(cluster: Cluster, section: Slurm) -> dict[str, Any]:
    """What the queue's host is told of the dashboard's buttons; empty where there are none. `peer`: who asks."""
    monitors = cluster.members("monitor")
    if not monitors or not cluster.site.metrics.dashboard.wants_buttons:
        return {}
    address = monitors[0].cluster_address
    peer = address if re.fullmatch("[0-9a-fA-F.:]+", address) else ""  # systemd knows addresses alone
    return {"port": PORT, "peer": peer, "languages": cluster.languages, "policy": _policy(section)}


def _groups(section: Slurm) -> list[dict[str, Any]]:
    """The groups of people, their memory as a number of GiB."""
    every = section.list_groups()
    return [{**one, "memory": one["memory"] and int(one["memory"].removesuffix("G"))} for one in every]


def slurm_node(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `slurm_node`."""
    controllers, section = cluster.members("slurm"), cluster.site.slurm or Slurm()
    return {
        "enabled": takes_jobs(cluster.site, cluster.hosts, host),
        "name": host.name,
        "homes": cluster.plain["homes"]["path"],
        "languages": cluster.languages,
        "policy": {**_policy(section), **_idle(cluster)},
        "oldest": section.oldest,
        "lacks": (lacks := find_lacking(section.oldest)),
        "controllers": [CONTROLLERS[one] for one in section.constrain if "cgroup/v2" not in lacks],
        "controller": controllers[0].cluster_address if controllers else "",
        "key": cluster.asked("slurm_key", ""),
        "host": controllers[0].name if controllers else host.name,
        "away": _away(cluster, host),
        "told": _told(cluster, host),
    }


def notebooks(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `notebooks`."""
    section, own = cluster.site.notebooks or Notebooks(), cluster.metrics.get("hosts", {}).get(host.name, {})
    monitors = [one for one in cluster.addresses("monitor") if is_address(one)]
    return {
        "enabled": has_notebooks(cluster.site, cluster.hosts, host),
        "packages": [*section.packages, *([PROXY] if section.code_server else [])],
        "jupyter": _configure_jupyter(str(section.code_server)) if section.code_server else {},
        "index": section.index,
        "front_port": section.front_port,
        "from": monitors[0] if monitors else "",
        "settings": {
            "node": host.name,
            "port": section.port,
            "idle": cluster.site.metrics.idle_hours * 3600,
        },
        "certificate": own.get("certificate", ""),
        "key": own.get("key", ""),
    }


def _configure_jupyter(code_server: str) -> dict[str, Any]:
    """What people's JupyterLab is told of code-server: it runs as they do, on a socket that they alone reach."""
    # guard: code-server has no port, since it asks for no password -> "{port}"
    socket = ["--socket", "{unix_socket}"]
    # guard: code-server leads to no port of the node, on which anybody may listen -> []
    ports = ["--disable-proxy"]
    command = [code_server, *socket, "--auth", "none", *ports, "--disable-telemetry", "--disable-update-check"]
    one = {"command": command, "unix_socket": True, "timeout": 60, "launcher_entry": {"title": "VS Code"}}
    return {"ServerProxy": {"servers": {"code": one}}}


def _policy(section: Slurm) -> dict[str, Any]:
    """What people may ask a node for that only operators of the queue may do."""
    book = {one.name: one.book or section.book for one in section.groups} | {EVERYBODY: section.book}
    groups = _groups(section)
    return {
        "extend": section.extend,
        "hours": {one["name"]: one["hours"] for one in groups},
        "limits": {one["name"]: one for one in groups},
        "book": {name: one.model_dump() for name, one in book.items() if one is not None},
        "booked": section.booked,
    }


def _idle(cluster: Cluster) -> dict[str, Any]:
    """What becomes of a GPU that its person does not use; nothing where nothing is measured."""
    metrics = cluster.site.metrics
    if not cluster.members("monitor"):
        return {}
    ends = metrics.idle_stop and cluster.site.mail is not None
    notice = metrics.idle_notice_hours if ends else 0
    return {"idle_hours": metrics.idle_hours, "idle_notice": notice, "idle_exempt": list(metrics.idle_exempt)}


def _away(cluster: Cluster, host: Host) -> dict[str, Any]:
    """What a verb that takes a node away asks of the queue, which `host` has; `waits`: how often it looks whether
    somebody is there. Empty: nothing is asked, or no jobs are started there."""
    given = dict(cluster.asked("away", {}))
    if not given or not takes_jobs(cluster.site, cluster.hosts, host):
        return {}
    waits = given.pop("waits")
    return {"host": cluster.members("slurm")[0].name, "waits": waits, "asked": {"nodes": [host.name], **given}}


def _told(cluster: Cluster, host: Host) -> dict[str, Any]:
    """What Slurm's controller is told again where GPUs of a node are divided; empty for all other verbs."""
    if not cluster.asked("divide_gpus", {}) or not takes_jobs(cluster.site, cluster.hosts, host):
        return {}
    controller = slurm_controller(cluster, cluster.members("slurm")[0])
    return {name: controller[name] for name in ("nodes", "hours", "address", "owned", "notice", "preempted", "lacks")}


def _name(site: str) -> str:
    """What Slurm calls the cluster: small letters, digits, and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", site.lower()).strip("-")[:40] or "gpu"

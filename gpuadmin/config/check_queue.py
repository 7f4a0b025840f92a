"""What `gpuadmin check` looks at about the queue: its host, its nodes, its people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuadmin.common.names import SLURM_WORDS
from gpuadmin.common.text import listed, the_page
from gpuadmin.config.finding import Finding, nobody_in
from gpuadmin.config.load import Site
from gpuadmin.config.queue import any_granted, has_notebooks, is_address, saved, takes_jobs, there
from gpuadmin.config.schema.slurm import Owns, Slurm
from gpuadmin.similar import did_you_mean


def of_notebooks(site: Site) -> Iterator[Finding]:
    section, page = site.settings.notebooks, site.settings.metrics.dashboard
    if section is None:
        return
    queue, monitors = there(site.settings, site.inventory.hosts), site.inventory.group("monitor")
    if not queue or not monitors or not page.enabled:
        message = "there are no notebooks: they are jobs of the queue, and people open them through the dashboard"
        hint = "set up a queue (the section slurm) and a monitor host with a dashboard, or remove the section notebooks"
        yield Finding("error", "gpuadmin.yml: notebooks", message, hint)
    if section.port == page.port:
        message = f"{section.port} is the dashboard's port, too"
        yield Finding("error", "gpuadmin.yml: notebooks.port", message, "choose another one")
    if section.front_port == site.settings.metrics.exporter_port:
        message = f"{section.front_port} is the exporter's port, too"
        yield Finding("error", "gpuadmin.yml: notebooks.front_port", message, "choose another one")
    for host in site.inventory.group("gpu"):
        if has_notebooks(site.settings, site.inventory.hosts, host) and not is_address(host.cluster_address):
            message = f"has no notebooks: nginx finds no host by name ({host.cluster_address})"
            yield Finding("warning", f"inventory: {host.name}", message, "give its IP address as gpuadmin_address")


def of_queue(site: Site) -> Iterator[Finding]:
    section, hosts = site.settings.slurm, site.inventory.group("slurm")
    if section is None:
        if site.settings.metrics.dashboard.wants_buttons:
            message = "the dashboard has no buttons: they ask the queue, and there is none"
            hint = "add `slurm: {}` to gpuadmin.yml, or remove buttons"
            yield Finding("warning", "gpuadmin.yml: metrics.dashboard.buttons", message, hint)
        if site.settings.gpus.self_service and not any_granted(site.settings, site.inventory.hosts):
            message = "nobody takes a GPU by it: all GPUs are open to everybody"
            yield Finding("warning", "gpuadmin.yml: gpus.self_service", message, "add `access: granted` to gpus")
        if hosts:
            message = "is in the group slurm, and gpuadmin.yml has no section slurm: provision takes the queue away"
            yield Finding(
                "warning", f"inventory: {hosts[0].name}", message, "to keep it, add `slurm: {}` to gpuadmin.yml"
            )
        return
    if not hosts:
        message = "there is no queue: no host is in the group slurm"
        hint = "put one host into the inventory's group slurm; the storage host can be the one"
        yield Finding("error", "gpuadmin.yml: slurm", message, hint)
    nodes = site.inventory.group("gpu")
    taking = [one for one in nodes if takes_jobs(site.settings, site.inventory.hosts, one)]
    for host in site.inventory.hosts:
        if host.variables.get("slurm_node") is True and host not in nodes:
            message = "slurm_node does nothing: only hosts of the group gpu take jobs"
            yield Finding(
                "error", f"inventory: {host.name}", message, "put it into the group gpu, or remove slurm_node"
            )
        if host.name.upper() in SLURM_WORDS and host in taking:
            message = "has a name that Slurm takes for something else"
            yield Finding("error", f"inventory: {host.name}", message, "rename it, or set slurm_node: false for it")
    if hosts and nodes and not taking:
        message = "no node takes jobs: slurm_node is false for all of them"
        yield Finding("error", "inventory: slurm_node", message, "set slurm_node: true for a node, or remove it")
    if len(hosts) > 1:
        names = ", ".join(host.name for host in hosts)
        yield Finding("error", "inventory: slurm", f"holds {names}", "a queue has one controller; keep one of them")
    if any("gpu" in host.groups for host in hosts):
        message = "is in the groups slurm and gpu: whoever slows this node down slows the queue down"
        yield Finding("error", f"inventory: {hosts[0].name}", message, "the storage host can have the queue")
    if hosts and not saved(site.settings, site.inventory.hosts):
        message = "no backup has the queue's accounting: only what is on the storage host is backed up"
        yield Finding(
            "warning", f"inventory: {hosts[0].name}", message,
            f"let the storage host have the queue, or run mariadb-dump there yourself: {the_page('slurm')}",
        )  # fmt: skip
    if hosts and site.settings.metrics.dashboard.wants_buttons and not saved(site.settings, site.inventory.hosts):
        message = "the dashboard has no buttons: people have accounts on nodes and storage hosts"
        yield Finding(
            "warning", "gpuadmin.yml: metrics.dashboard.buttons", message,
            "let the storage host have the queue, or remove buttons",
        )  # fmt: skip
    if site.settings.accounts.source != "registry":
        message = "the queue knows the people of users.yml, and accounts.source is directory"
        yield Finding(
            "error", "gpuadmin.yml: slurm", message, "keep accounts in users.yml, or remove the section slurm"
        )
    open_nodes = [
        host.name for host in taking if (host.variables.get("gpus_access") or site.settings.gpus.access) == "open"
    ]
    if open_nodes:
        message = (
            f"people can use GPUs without waiting for their turn on {listed(open_nodes)}: they are open to everybody"
        )
        yield Finding(
            "warning",
            "gpuadmin.yml: gpus.access",
            message,
            "set it to granted, or slurm_node: false for those nodes in the inventory",
        )
    yield from nobody_in(site, "gpuadmin.yml: slurm.groups", [group.name for group in section.groups])
    yield from _owned(section, [one.name for one in taking])


def _owned(section: Slurm, nodes: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with the nodes of groups. `nodes`: those that take jobs."""
    owners: dict[tuple[str, str], str] = {}
    for group in section.groups:
        where, owns = f"gpuadmin.yml: slurm.groups: {group.name}: owns", group.owns or Owns.model_construct()
        things = [*(("nodes", one) for one in owns.nodes), *(("types", one) for one in owns.types)]
        if group.owns and not things:
            yield Finding("error", where, "names neither nodes nor types", "owns: {nodes: [NODE]}, or leave it out")
        for kind, name in dict.fromkeys(things):
            if other := owners.get((kind, name)):
                message = f"{kind}: {name} is {other}'s already, and nobody says which of them comes first"
                yield Finding("error", where, message, "name it in one group; people of both can be one group")
            owners.setdefault((kind, name), group.name)
            if kind == "nodes" and name not in nodes:
                hint = did_you_mean(name, nodes) or "name a host of the group gpu that takes jobs"
                yield Finding("error", where, f"nodes: {name} is not a node of the queue", hint)

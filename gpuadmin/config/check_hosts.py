"""What `gpuadmin check` looks at about hosts: the inventory's groups and addresses, host keys, and keys to log in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from gpuadmin.common.text import counted, listed
from gpuadmin.config.finding import Finding
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.inventory import Inventory
from gpuadmin.config.known_hosts import known_as, no_keys, pinned_keys, read_known_hosts
from gpuadmin.config.load import KNOWN_HOSTS, Site
from gpuadmin.config.private_key import login_problem
from gpuadmin.similar import LIKE, NEARLY, did_you_mean


def of_inventory(inventory: Inventory) -> Iterator[Finding]:
    where = "inventory/hosts.yml"
    if not inventory.hosts:
        hint = "add your machines to inventory/hosts.yml, below gpu and storage; Ansible reads no hosts.ini"
        yield Finding("error", "inventory/", "no file there names a host", hint)
        return
    for group in ("gpu", "storage"):
        if not inventory.group(group):
            yield Finding("error", f"{where}: {group}", f"no host is in it ({GROUPS[group]})", "put a host there")
    golden = inventory.group("golden")  # always in gpu too: inventory/groups.yml says so
    if len(golden) > 1:
        names = ", ".join(host.name for host in golden)
        yield Finding("error", f"{where}: golden", f"holds {names}", "one node is golden; keep one of them")
    for host in inventory.hosts:
        unknown, meant = not set(host.groups) & set(GROUPS), _meant(host.groups)
        if unknown or meant:
            why = "in no group that gpuadmin knows" if unknown else "also in a group that gpuadmin does not know"
            yield Finding("warning", f"{where}: {host.name}", f"is {why}{meant}", f"groups: {', '.join(GROUPS)}")
    yield from _group_slips(inventory, where)
    addresses: dict[tuple[str, int], str] = {}
    for host in inventory.hosts:
        key = (host.address, host.port)
        if key in addresses:
            yield Finding(
                "error",
                f"{where}: {host.name}",
                f"is reached at {key[0]} port {key[1]}, like {addresses[key]}",
                "two names for one machine would set it up twice; correct ansible_host or ansible_port",
            )
        addresses[key] = host.name


def _group_slips(inventory: Inventory, where: str) -> Iterator[Finding]:
    groups = {group for host in inventory.hosts for group in host.groups} | set(GROUPS) | {"all", "ungrouped"}
    for host in inventory.hosts:
        if host.name in groups:
            yield Finding(
                "error",
                f"{where}: {host.name}",
                "a host and a group have this name, and Ansible cannot tell which is meant",
                f"give the host another name, such as {host.name}1 with ansible_host: {host.address}",
            )
        if {"gpu", "storage"} <= set(host.groups):
            yield Finding(
                "error",
                f"{where}: {host.name}",
                f"is in {'golden, whose host is a node,' if 'golden' in host.groups else 'gpu'} and in storage: "
                "people do not log in to the host that serves the homes",
                "take it out of one of them",
            )


def _meant(groups: Collection[str]) -> str:
    """Which group was meant where one has almost its name."""
    for group in sorted({*groups} - {*GROUPS}):
        # `monitr` is 0.92 of `monitor`; `gpu_a` below gpu is the site's own, and `old` is 0.67 of `golden`
        if close := did_you_mean(group, {*GROUPS} - {*groups}, NEARLY if {*groups} & {*GROUPS} else LIKE):
            return f": '{group}'; {close}"
    return ""


def of_known_hosts(site: Path, inventory: Inventory) -> Iterator[Finding]:
    text = read_known_hosts(site / KNOWN_HOSTS)
    for line in no_keys(text):
        yield Finding("error", f"known_hosts:{line}", "is not a host key, so ssh ignores it", "gpuadmin trust HOST")
    unknown = [host.name for host in inventory.hosts if not pinned_keys(text, known_as(host.address, host.port))]
    if unknown:
        message = f"the ssh host keys of {counted(len(unknown), 'host')} are not pinned: {listed(unknown)}"
        hint = "gpuadmin bootstrap pins them; on hosts that have the admin account: gpuadmin trust --all"
        yield Finding("warning", "known_hosts", message, hint)


def of_keys(site: Site) -> Iterator[Finding]:
    """The keys that hosts are logged in to with: the site's, and those that the inventory names for some."""
    named = site.settings.admin.ssh_key
    keys: dict[str | None, str] = {} if named is None else {named: "gpuadmin.yml: admin.ssh_key"}
    for host in site.inventory.hosts:
        if not host.local:
            own = host.key is not None
            where = f"inventory: {host.name}: ansible_ssh_private_key_file" if own else "gpuadmin.yml: admin.ssh_key"
            keys.setdefault(host.key if own else named, where)
    for key, where in keys.items():
        if problem := login_problem(key):
            level: Literal["error", "warning"] = "error" if problem.sure and key is not None else "warning"
            yield Finding(level, where, f"{problem.key} {problem.message}", problem.hint)

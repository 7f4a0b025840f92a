"""What `gpuadmin check` looks at of groups, shared directories and mounts."""

from __future__ import annotations

from collections.abc import Iterator

from gpuadmin.common.amounts import NONE, UNLIMITED
from gpuadmin.common.text import listed
from gpuadmin.config.finding import Finding, nobody_in
from gpuadmin.config.load import Site

_FILE = "gpuadmin.yml"


def of_shared(site: Site) -> Iterator[Finding]:
    """Findings of `groups`, `shared` and `mounts`."""
    settings = site.settings
    for group in settings.groups:
        if site.registry.find(group.name) is not None:
            message = f"{group.name} is somebody's name in users.yml, and everybody has a group of their own name"
            yield Finding("error", f"{_FILE}: groups", message, "give the group of people another name")
    yield from nobody_in(site, f"{_FILE}: groups", [group.name for group in settings.groups])
    if settings.groups and settings.accounts.source == "directory":
        message = "does nothing: groups come from the directory (accounts.source)"
        yield Finding("warning", f"{_FILE}: groups", message, "take it out; shared[].group is a group of the directory")
    if settings.shared and not site.inventory.group("storage"):
        message = "nobody has the directories: the site has no storage host"
        yield Finding("error", f"{_FILE}: shared", message, "put a host into the group storage, or use mounts")
    bounded = [one for one in settings.shared if one.size != UNLIMITED]
    if among := [one.name for one in bounded if one.backup]:
        message = f"{listed(among)}: on btrfs nothing enforces the size of what backups have"
        yield Finding("warning", f"{_FILE}: shared", message, "say `backup: no` for what can be fetched again")
    if any(not one.backup for one in bounded) and (settings.limits is None or settings.limits.disk_reserve == NONE):
        message = "on btrfs nothing enforces a size: quotas are on with limits.disk_reserve alone"
        yield Finding("warning", f"{_FILE}: shared", message, "add `limits: {}`, or a disk_reserve to it")
    docker = settings.docker
    keepers = [host.name for group in ("storage", "monitor") for host in site.inventory.group(group)]
    if docker.mirror and (not keepers if docker.mirror is True else docker.mirror not in keepers):
        message = "no storage host and no monitor host has this name" if keepers else "there is no host to keep images"
        yield Finding("error", f"{_FILE}: docker.mirror", message, "name a host of the group storage or monitor")
    known = {"all", *(name for host in site.inventory.hosts for name in (host.name, *host.groups))}
    for index, mount in enumerate(settings.mounts):
        if strange := [name for name in mount.hosts if name not in known]:
            message = f"{listed(strange)}: no host and no group of the inventory"
            yield Finding("error", f"{_FILE}: mounts[{index}].hosts", message, "correct the name")

"""A lab as a site: what `gpuadmin` needs to know to work on it."""

from __future__ import annotations

from pathlib import Path

from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.lab import ssh
from gpuadmin.lab.seed import ADMIN
from gpuadmin.lab.state import Host, Kind, Lab

_GROUPS: dict[Kind, tuple[str, ...]] = {"storage": ("storage",), "node": ("gpu",), "plain": ("gpu",)}


def groups(host: Host) -> tuple[str, ...]:
    """Given a host, return its inventory groups."""
    return (*_GROUPS[host.kind], *(("golden",) if host.golden else ()))


def variables(host: Host) -> dict[str, object]:
    """Given a host, return its inventory variables."""
    return {"ansible_host": "127.0.0.1", "ansible_port": host.ssh_port, "gpuadmin_address": host.address}


def settings(lab: Lab) -> dict[str, object]:
    """Return what the lab's gpuadmin.yml says besides the defaults."""
    return {"admin": {"user": ADMIN, "ssh_key": str(lab.ssh_key)}}


def write(lab: Lab, directory: Path) -> None:
    """Write the lab's site. In one that is there already, only the inventory and the host keys are refreshed."""
    write_site(
        directory,
        name=lab.name,
        settings=settings(lab),
        hosts=[SiteHost(host.name, groups(host), variables(host)) for host in lab.hosts],
        known_hosts=ssh.known_hosts(lab),
    )

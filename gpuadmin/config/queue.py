"""Which nodes the queue starts jobs on."""

from __future__ import annotations

from collections.abc import Iterable

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings


def takes_jobs(settings: Settings, hosts: Iterable[Host], host: Host) -> bool:
    """Whether Slurm starts jobs on a host. `hosts`: all of the inventory."""
    there = settings.slurm is not None and any("slurm" in one.groups for one in hosts)
    return there and "gpu" in host.groups and host.variables.get("slurm_node") is not False

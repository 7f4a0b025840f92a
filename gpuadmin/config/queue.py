"""Whether there is a queue, and which nodes it starts jobs on."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings


def there(settings: Settings, hosts: Iterable[Host]) -> bool:
    """Whether a site has a queue. `hosts`: all of the inventory."""
    return settings.slurm is not None and any("slurm" in one.groups for one in hosts)


def saved(settings: Settings, hosts: Iterable[Host]) -> bool:
    """Whether backups have a queue's accounting: a storage host makes them, of what it has. `hosts`: as above."""
    return there(settings, hosts) and all("storage" in one.groups for one in hosts if "slurm" in one.groups)


def any_granted(settings: Settings, hosts: Iterable[Host]) -> bool:
    """Whether people can open a GPU of some node only when it was given to them. `hosts`: all of the inventory."""
    return "granted" in (settings.gpus.access, *(one.variables.get("gpus_access") for one in hosts))


def find_self_service(settings: Settings, hosts: Iterable[Host]) -> Mapping[str, int] | None:
    """The rule by which people take free GPUs themselves; None where all are open, or a queue gives them."""
    rule = settings.gpus.self_service
    return rule.model_dump() if rule and settings.slurm is None and any_granted(settings, hosts) else None


def takes_jobs(settings: Settings, hosts: Iterable[Host], host: Host) -> bool:
    """Whether Slurm starts jobs on a host. `hosts`: all of the inventory."""
    return there(settings, hosts) and "gpu" in host.groups and host.variables.get("slurm_node") is not False


def has_notebooks(settings: Settings, hosts: Iterable[Host], host: Host) -> bool:
    """Whether people have notebooks on a host: it takes jobs, and a dashboard leads there. `hosts`: as above."""
    shown = settings.metrics.dashboard.enabled and any("monitor" in one.groups for one in hosts)
    return settings.notebooks is not None and shown and takes_jobs(settings, hosts, host)


def is_address(text: str) -> bool:
    """Whether it is an IP address and no name."""
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False

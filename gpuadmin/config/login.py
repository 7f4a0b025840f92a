"""What people log in to: the guide, the mails and the call for applications name it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError


@dataclass(frozen=True)
class Node:
    """A machine to log in to: what people call it, and where ssh finds it."""

    name: str
    address: str
    port: int = 22


def list_login_nodes(settings: Settings, hosts: Sequence[Host]) -> tuple[Node, ...]:
    """Given a site's settings and its nodes, return what people log in to: `mail.login`, or the nodes themselves.

    Raises ConfigError if there is none.
    """
    if settings.mail is not None and settings.mail.login:
        ports = {name: host.port for host in hosts for name in (host.name, host.address)}
        names = settings.mail.login
        short = Counter(name.partition(".")[0] for name in names)
        return tuple(Node(_short(name, short), name, ports.get(name, 22)) for name in names)
    if not hosts:
        raise ConfigError("this site has no nodes", hint="put them into the group gpu in inventory/hosts.yml")
    # an address that a template gives is not known here
    return tuple(Node(host.name, host.name if "{{" in host.address else host.address, host.port) for host in hosts)


def _short(name: str, known: Counter[str]) -> str:
    """What people type for a host: its name without the domain, if that is unique and not a number."""
    first = name.partition(".")[0]
    return name if known[first] > 1 or first.isdecimal() else first

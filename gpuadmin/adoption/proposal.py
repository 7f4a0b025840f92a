"""The site that hosts as they are amount to: settings, inventory, people, and everything that does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuadmin.adoption import groups as grouping
from gpuadmin.adoption import of_hosts, of_people
from gpuadmin.adoption.conflict import NO_ADMIN, Conflict, word
from gpuadmin.adoption.groups import Grouped, Homes
from gpuadmin.adoption.people import People, docker_users, found_people, people
from gpuadmin.adoption.seen import Host
from gpuadmin.adoption.settings import home_settings, id_ranges, protected
from gpuadmin.config.hosts_file import SiteHost
from gpuadmin.config.load import Site
from gpuadmin.config.schema import Settings
from gpuadmin.config.schema.base import LOWEST_HUMAN_UID

ADMIN = "gpuadmin"


@dataclass(frozen=True)
class Proposal:
    """What adopt makes of the hosts. `settings`: what gpuadmin.yml says beside the defaults."""

    name: str
    hosts: tuple[Host, ...]
    groups: Mapping[str, Grouped]
    homes: Homes
    people: People
    settings: Mapping[str, Any]
    chosen: Settings
    conflicts: tuple[Conflict, ...]
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def site_hosts(self) -> list[SiteHost]:
        """The hosts as inventory/hosts.yml has them."""
        return [
            SiteHost(host.name, self.groups[host.name].groups, {**host.reached, **_gpus(host)})
            for host in self.hosts
            if self.groups[host.name].groups
        ]


def _gpus(host: Host) -> dict[str, object]:
    gpus = host.part("gpus")
    return {"gpus": len(gpus["bus"])} if gpus is not None and gpus["bus"] else {}


def admin_of(hosts: Sequence[Host], login: str) -> str:
    """The account that gpuadmin logs in as from now on: the one given, where it is a system account everywhere."""
    found = [one for host in hosts for one in host.listed("accounts") if one["name"] == login]
    fits = len(found) == len(hosts) and not any(host.without_root for host in hosts)
    fits = fits and all(one["uid"] is not None and 0 < one["uid"] < LOWEST_HUMAN_UID for one in found)
    return login if fits else ADMIN


def propose(
    name: str,
    hosts: Sequence[Host],
    *,
    login: str,
    ssh_key: str | None = None,
    silent: Mapping[str, str] | None = None,
    site: Site | None = None,
) -> Proposal:
    """Given hosts that answered, and those that did not with why, return the site that they amount to.

    `login`: who was logged in as. `site`: what there is already; its settings hold, and who is in it stays as they are.
    """
    homes = grouping.homes_of(hosts)
    if site is not None:
        homes = _homes_of_site(site, homes)
    groups = grouping.group(hosts, homes)
    if site is not None:
        known = {host.name: host.groups for host in site.inventory.hosts}
        groups = {
            one: Grouped(known[one], ("inventory/hosts.yml says so",)) if one in known else _no_second(found, site)
            for one, found in groups.items()
        }
    if homes.server is None:
        homes = replace(homes, server=next((one for one, found in groups.items() if "storage" in found.groups), None))
    homes = replace(homes, sources=_sources(homes, hosts, site))
    registered = {} if site is None else {user.name: user for user in site.registry.registry.users}
    found = found_people(hosts, login, homes.server, {name: user.uid for name, user in registered.items()})
    if site is None:
        admin = admin_of(hosts, login)
        settings: dict[str, Any] = {
            "admin": {"user": admin, **({"ssh_key": ssh_key} if ssh_key else {})},
            **id_ranges(found[1].values()),
            **home_settings(homes, _mountpoint(homes, hosts)),
            **protected(found[2]),
        }
        chosen = Settings.model_validate({"name": name, **settings})
    else:
        settings, chosen = {}, site.settings
    everybody = people(hosts, chosen, found, docker_users(hosts), registered)
    others = [] if site is None else [group for host in site.inventory.hosts for group in host.groups]
    admins = ["root", chosen.admin.user, *chosen.protected]
    conflicts = [
        *_login(hosts, login, chosen),
        *grouping.conflicts(hosts, groups, others),
        *of_people.conflicts(hosts, everybody, chosen),
        *of_hosts.conflicts(hosts, groups, homes, everybody, admins),
    ]
    return Proposal(
        name, tuple(hosts), groups, homes, everybody, settings, chosen, tuple(conflicts), dict(silent or {})
    )


def _sources(homes: Homes, hosts: Sequence[Host], site: Site | None) -> tuple[str, ...]:
    """What nodes would mount: the storage host by its address in the cluster, or the automount before that."""
    known: list[Mapping[str, object]] = [] if site is None else [host.variables for host in site.inventory.hosts]
    names = [] if site is None else [host.name for host in site.inventory.hosts]
    ways = {**{host.name: host.reached for host in hosts}, **dict(zip(names, known, strict=True))}
    reached = ways.get(homes.server or "", {})
    address = reached.get("gpuadmin_address") or reached.get("ansible_host") or homes.server
    return (f"{address}:{homes.export}", "systemd-1")


def _mountpoint(homes: Homes, hosts: Sequence[Host]) -> str | None:
    """Where the disk of the homes is mounted on their host, so that none is made beside it; None for the root's."""
    host = next((host for host in hosts if host.name == homes.server), None)
    disk = None if host is None or homes.export is None else host.disk(homes.export)
    return None if disk is None or disk["point"] == "/" else str(disk["point"])


def _homes_of_site(site: Site, seen: Homes) -> Homes:
    """What gpuadmin.yml says of homes, whatever the hosts have."""
    storage = site.inventory.group("storage")
    server = site.settings.homes.server or (storage[0].name if storage else None)
    return Homes(site.settings.homes.path, site.settings.homes.export, server, seen.why)


def _no_second(found: Grouped, site: Site) -> Grouped:
    """A host that joins a site: what one host of a site is, it is not as well."""
    single = {name for name in ("golden", "monitor", "storage") if site.inventory.group(name)}
    left = tuple(group for group in found.groups if group not in single)
    return Grouped(left, tuple(why for why in found.why if why.partition(":")[0] in (*left, "in no group")))


def _login(hosts: Sequence[Host], login: str, settings: Settings) -> list[Conflict]:
    """What is to be done so that gpuadmin has an account of its own."""
    missing = [
        host.name for host in hosts if all(one["name"] != settings.admin.user for one in host.listed("accounts"))
    ]
    if not missing:
        return []
    names = " ".join(word(name) for name in missing)
    return [
        Conflict(
            NO_ADMIN,
            f"{settings.admin.user}, the account that gpuadmin logs in as, is missing; bootstrap makes it",
            "stops",
            tuple(missing),
            remedies=(f"gpuadmin bootstrap {names} --as {'USER' if login == settings.admin.user else word(login)}",),
        )
    ]

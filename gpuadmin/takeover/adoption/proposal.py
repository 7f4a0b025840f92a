"""The site that hosts as they are amount to: settings, inventory, people, and everything that does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuadmin.config.hosts_file import SiteHost
from gpuadmin.config.load import Site
from gpuadmin.config.schema import Settings, User
from gpuadmin.config.schema.base import LOWEST_HUMAN_UID
from gpuadmin.takeover.adoption import groups as grouping
from gpuadmin.takeover.adoption.conflict import NO_ADMIN, Conflict, word
from gpuadmin.takeover.adoption.earlier import NOTHING, Earlier, merged
from gpuadmin.takeover.adoption.groups import Grouped, Homes
from gpuadmin.takeover.adoption.host_conflicts import find_host_conflicts
from gpuadmin.takeover.adoption.people import People, docker_users, found_people, people
from gpuadmin.takeover.adoption.people_conflicts import find_people_conflicts
from gpuadmin.takeover.adoption.seen import Host
from gpuadmin.takeover.adoption.settings import home_settings, id_ranges, protected

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
    earlier: Earlier = field(default_factory=Earlier)
    site: Site | None = None

    @property
    def unseen(self) -> list[str]:
        """Hosts whose accounts nobody has looked at: those of the site, and those that do not answer."""
        names = [] if self.site is None else [host.name for host in self.site.inventory.hosts]
        seen = {*self.earlier.hosts, *(host.name for host in self.hosts if host.part("accounts") is not None)}
        everybody = dict.fromkeys([*names, *self.silent, *(host.name for host in self.hosts)])
        return [name for name in everybody if name not in seen]

    @property
    def users(self) -> list[User]:
        """Everybody of users.yml whom a host has, in the order of their uids."""
        users = [] if self.site is None else self.site.registry.registry.users
        known = {user.name: user for user in users if self.uids(user.name)}
        found = {**known, **{user.name: user for user in self.people.users}}
        return sorted(found.values(), key=lambda user: (user.uid or 0, user.name))

    def uids(self, name: str) -> dict[str, int]:
        """Host → somebody's uid there, by this look and earlier ones."""
        person = self.people.persons.get(name)
        return {**self.earlier.uids.get(name, {}), **({} if person is None else person.uids)}

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


def choose_admin_account(hosts: Sequence[Host], login: str) -> str:
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
    earlier: Earlier = NOTHING,
) -> Proposal:
    """Given hosts that answered, and those that did not with why, return the site that they amount to.

    `login`: who was logged in as. `site`: what there is already; its settings hold, and who is in it stays as they are.
    `earlier`: what a report has of hosts that are not among these.
    """
    silent = {**earlier.silent, **(silent or {})}
    homes = grouping.find_homes(hosts)
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
    uids = {name: user.uid for name, user in registered.items()}
    found = found_people(hosts, login, homes.server, uids, () if site is None else site.settings.protected)
    if site is None:
        admin = choose_admin_account(hosts, login)
        settings: dict[str, Any] = {
            "admin": {"user": admin, **({"ssh_key": ssh_key} if ssh_key else {})},
            **id_ranges(found[1].values()),
            **home_settings(homes, _mountpoint(homes, hosts)),
            **protected(found[2]),
        }
        chosen = Settings.model_validate({"name": name, **settings})
    else:
        settings, chosen = {}, site.settings
    everywhere = _everywhere(groups, silent, site)
    everybody = people(hosts, chosen, found, docker_users(hosts), registered, everywhere)
    others = [] if site is None else [group for host in site.inventory.hosts for group in host.groups]
    admins = ["root", chosen.admin.user, *chosen.protected]
    conflicts = [
        *_login(hosts, login, chosen),
        *grouping.conflicts(hosts, groups, others),
        *find_people_conflicts(hosts, everybody, chosen),
        *find_host_conflicts(hosts, groups, homes, everybody, admins),
    ]
    if earlier.conflicts:
        conflicts = merged([*conflicts, *earlier.conflicts])
    return Proposal(
        name, tuple(hosts), groups, homes, everybody, settings, chosen, tuple(conflicts), silent, earlier,
        site,
    )  # fmt: skip


def _everywhere(groups: Mapping[str, Grouped], silent: Mapping[str, str], site: Site | None) -> list[str]:
    """Where people log in: to nodes, also those that are not looked at now; to any host where there is no node."""
    nodes = [name for name, one in groups.items() if "gpu" in one.groups] or list(groups)
    known = {} if site is None else {host.name: host.groups for host in site.inventory.hosts}
    others = [name for name in {**known, **silent} if name not in groups and "gpu" in known.get(name, ("gpu",))]
    return [*nodes, *others]


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

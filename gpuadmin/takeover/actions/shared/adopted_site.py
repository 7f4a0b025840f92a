"""The files of a site that adopt writes: a new one, or what is new in one that people have edited since."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpuadmin.config.adopted import DOCUMENT, read_adoption
from gpuadmin.config.find import USERS_FILE
from gpuadmin.config.hosts_file import HOSTS_FILE, SiteHost, with_hosts
from gpuadmin.config.known_hosts import read_known_hosts, with_lines
from gpuadmin.config.load import Site
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import User
from gpuadmin.config.skeleton import write_site
from gpuadmin.config.yamlfile import YamlFile, write_atomically
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.jsontext import json_text
from gpuadmin.reading import read_text
from gpuadmin.takeover.adoption import page as pages
from gpuadmin.takeover.adoption.proposal import Proposal


@dataclass(frozen=True)
class News:
    """What a site does not have yet."""

    hosts: tuple[SiteHost, ...] = ()
    users: tuple[User, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hosts or self.users)


def news(proposal: Proposal, site: Site | None) -> News:
    """Hosts and people of the proposal that the site does not have; who was removed from it is not new."""
    if site is None:
        return News(tuple(proposal.site_hosts), tuple(proposal.people.users))
    registry = site.registry.registry
    names = {user.name for user in registry.users}
    # guard: who was removed from a site is not adopted again
    names |= {entry.name for entry in registry.retired}
    uids = {user.uid for user in registry.users} | {entry.uid for entry in registry.retired}
    keys = {key.split()[1] for user in registry.users for key in user.keys}
    users = []
    for user in proposal.people.users:
        if user.name not in names and user.uid not in uids:
            free = [key for key in user.keys if key.split()[1] not in keys]
            users.append(user.model_copy(update={"keys": free}))
    hosts = {host.name for host in site.inventory.hosts}
    return News(tuple(host for host in proposal.site_hosts if host.name not in hosts), tuple(users))


def write_new(directory: Path, proposal: Proposal, known_hosts: str) -> list[str]:
    """Write a site where there is none. Returns the files. Raises ConfigError where one of them is there already."""
    for name in (USERS_FILE, HOSTS_FILE):
        if (directory / name).exists():  # guard: files that are no site's yet are not made one
            raise ConfigError(
                f"{directory / name}: is there already, without a gpuadmin.yml",
                hint="nothing was written; move it away, or name another directory",
            )
    written = write_site(
        directory, name=proposal.name, settings=proposal.settings, hosts=proposal.site_hosts, known_hosts=known_hosts
    )
    registry = RegistryFile.load(directory / USERS_FILE, proposal.chosen)
    if proposal.people.users:
        registry = registry.changed(proposal.chosen, add=proposal.people.users)
    registry.save()
    return written


def write_news(site: Site, new: News, known_hosts: str) -> list[str]:
    """Add to a site what is new. What is in its files stays as it is, comments and all. Returns the files."""
    written = []
    if new.users:
        site.registry.changed(site.settings, add=new.users).save()
        written.append(USERS_FILE)
    path = site.directory / HOSTS_FILE
    file = YamlFile.load(path, name=HOSTS_FILE)
    pinned = read_known_hosts(site.known_hosts)
    for place, before, after in (
        (path, file.text, with_hosts(file, new.hosts).text if new.hosts else file.text),
        (site.known_hosts, pinned, with_lines(pinned, known_hosts.splitlines()) if known_hosts != pinned else pinned),
    ):
        if after != before:
            if (read_text(place) if place.exists() else "") != before:
                raise RefusedError(f"{place}: was changed meanwhile; nothing was written over it", hint="run it again")
            write_atomically(place, after)
            written.append(str(place.relative_to(site.directory)))
    return written


def write_report(directory: Path, proposal: Proposal, when: datetime) -> list[str]:
    """Write adoption.md and adoption.json. A page that somebody has edited stays, and the new one is beside it."""
    text = pages.page(proposal, when)
    name = pages.PAGE
    target = directory / name
    if target.exists():
        digest = hashlib.sha256(read_text(target).encode()).hexdigest()
        if digest != read_adoption(directory).get("page"):  # guard: a page that somebody has edited is not written over
            name = f"adoption-{when:%Y%m%dT%H%M%S}.md"
    write_atomically(directory / name, text)
    write_atomically(directory / DOCUMENT, json_text(pages.document(proposal, when, text)) + "\n")
    return [name, DOCUMENT]

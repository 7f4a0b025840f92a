"""gpuadmin.node.site: what each host of a site is meant to be, as Ansible's variables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin
from ansible.vars.plugins import get_vars_from_inventory_sources
from gpuadmin.accounts.desired import variables as about_people
from gpuadmin.config.find import find_site
from gpuadmin.config.inventory import ROLE_INPUTS, Host
from gpuadmin.config.load import load_site
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables

DOCUMENTATION = r"""
name: site
short_description: The variables of gpuadmin's roles, from a site
version_added: "0.1.0"
description:
  - For each host that sources before this one have named, the variables of gpuadmin's roles, computed by
    C(gpuadmin.desired) from the site's settings and from what a verb asks for.
  - What the site's own inventory says of a host or its groups wins; extra variables win over all, as always in Ansible.
  - The variable C(gpuadmin_site) has the settings where gpuadmin runs Ansible. Without it the plugin reads the
    site from the directory that C(GPUADMIN_SITE) names, or from where Ansible was started.
options:
  plugin:
    description: The name of this plugin.
    required: true
    choices: [gpuadmin.node.site]
author:
  - The gpuadmin authors
"""


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # Ansible has no types
    """Ansible takes no text from here for a template, because `trusted_by_default` is false."""

    NAME = "gpuadmin.node.site"

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            self._give(inventory, loader)
        except click.ClickException as error:
            raise AnsibleParserError(error.format_message()) from None

    def _give(self, inventory: Any, loader: Any) -> None:
        everybody = inventory.groups["all"]
        own = Written(inventory, loader)
        request = {**own.of_group(everybody), **self._vars}
        if "gpuadmin_site" in request:
            settings = Settings.model_validate(json.loads(json.dumps(request["gpuadmin_site"])))
        else:
            site = load_site(str(find_site(None)))
            settings = site.settings
            people = about_people(settings, site.registry.registry.users)
            request = {**people, **request, "gpuadmin_site": settings.model_dump(mode="json")}
            inventory.set_variable("all", "gpuadmin_site", request["gpuadmin_site"])
        hosts = {name: self._host(host, own.of_host(host), request) for name, host in inventory.hosts.items()}
        cluster = Cluster(settings, tuple(hosts.values()), request)
        found = {name: variables(cluster, host) for name, host in hosts.items()}
        odd = [of for name, known in found.items() for of in unlike(name, own.of_host(inventory.hosts[name]), known)]
        if odd:  # guard: what the inventory says above the site is of the kind that roles are given
            raise AnsibleParserError("; ".join(odd[:5]))  # a mistake in a group is in every host of it
        for variable in next(iter(found.values()), {}):
            values = [one[variable] for one in found.values()]
            if all(value is values[0] or value == values[0] for value in values):
                # once for all hosts: Ansible copies what it is given (docs/decisions/0075)
                if variable not in everybody.vars:  # guard: what the inventory says for all hosts wins -> True
                    inventory.set_variable("all", variable, values[0])
                continue
            for name, value in zip(found, values):
                if variable not in own.of_host(inventory.hosts[name]):  # guard: what the inventory says of a host wins
                    inventory.set_variable(name, variable, value)

    def _host(self, host: Any, known: Mapping[str, Any], request: Mapping[str, Any]) -> Host:
        """A host as the controller knows it, with the templates in its variables evaluated."""
        self.templar.available_variables = {**request, **known, "inventory_hostname": host.name}
        found = {name: self.templar.template(known[name]) for name in ROLE_INPUTS if name in known}
        return Host(host.name, tuple(group.name for group in host.get_groups() if group.name != "all"), found)


_KINDS = {bool: "true or false", int: "a whole number", list: "a list", dict: "a mapping"}


def unlike(host: str, own: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """What the inventory says of a host that is of another kind than what is computed; roles check it nowhere.

    Templates show on the host what they are, and a variable of text may be given as data.
    """
    for name in sorted(known.keys() & own.keys()):
        value, kind = own[name], type(known[name])
        template = isinstance(value, str) and "{" in value
        same = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if kind in _KINDS and value is not None and not (template or same):
            yield f"inventory: {host}: {name} is {str(value)[:60]!r}, not {_KINDS[kind]}"


class Written:
    """The variables that the site's inventory sets itself, with those in host_vars and group_vars."""

    def __init__(self, inventory: Any, loader: Any) -> None:
        self._sources, self._loader, self._all = inventory.processed_sources, loader, inventory.groups["all"]
        self._groups: dict[str, dict[str, Any]] = {}
        self._hosts: dict[str, dict[str, Any]] = {}

    def of_group(self, group: Any) -> dict[str, Any]:
        """A group's own variables."""
        if group.name not in self._groups:
            files = get_vars_from_inventory_sources(self._loader, self._sources, [group], "all")
            self._groups[group.name] = {**group.get_vars(), **files}
        return self._groups[group.name]

    def of_host(self, host: Any) -> dict[str, Any]:
        """A host's variables and those of its groups, in Ansible's order: its own win."""
        if host.name not in self._hosts:
            found: dict[str, Any] = {}
            # guard: what is for all hosts is for those of a group that stands by itself, too -> host.get_groups()
            groups = {*host.get_groups(), self._all}  # Ansible itself adds it when all sources are read
            for group in sorted(groups, key=lambda one: (one.depth, one.priority, one.name)):
                found.update(self.of_group(group))
            files = get_vars_from_inventory_sources(self._loader, self._sources, [host], "all")
            self._hosts[host.name] = {**found, **host.get_vars(), **files}
        return self._hosts[host.name]

"""inventory/hosts.yml as people edit it: hosts are added and their variables changed, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuadmin.config.rewrite import with_fields
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.errors import ConfigError

HOSTS_FILE = "inventory/hosts.yml"
#: Directories of an inventory that hold variables → what each of their files is named after.
FOLDERS = {"group_vars": "group", "host_vars": "host"}


@dataclass(frozen=True)
class SiteHost:
    """A host of an inventory: its name, its groups, and its variables."""

    name: str
    groups: tuple[str, ...]
    variables: Mapping[str, object] = field(default_factory=dict)


def with_hosts(file: YamlFile, hosts: Sequence[SiteHost]) -> YamlFile:
    """Given an inventory file and hosts, return the file with them. Nothing is written.

    A host that is in it already stays in its groups, and gets those of the given variables that differ. A new host is
    added to its groups. Raises ConfigError if the file has another shape than groups with hosts.
    """

    def change(data: Any) -> None:
        for host in hosts:
            _put(data, host)

    try:
        return with_fields(file, change)
    except (AttributeError, TypeError, KeyError):  # a list or a text where groups or hosts have to be
        raise ConfigError(
            f"{HOSTS_FILE}: does not hold groups with hosts as `gpuadmin init` writes them, so no host can be added",
            hint=f"correct it, or move it away; these belong in it: {', '.join(host.name for host in hosts)}",
        ) from None


def with_host_moved(file: YamlFile, name: str, before: str, after: str, own: Mapping[str, object]) -> YamlFile:
    """Given an inventory file and a host, return the file with it in the group `after`, not `before`, and with its
    `own` variables; one of None goes. Raises ConfigError where the host is in neither by its own name."""

    def change(data: Any) -> None:
        groups = {group: entry["hosts"] for group, entry in find_groups(data) if name in (entry.get("hosts") or {})}
        hosts = groups[before] if before in groups else groups[after]
        entry, comments = deepcopy(hosts.pop(name)) or {}, _take_comments(hosts, name)
        there: Any = _ensure_group_hosts(data, after)
        for variable, value in {**(there.get(name) or {}), **entry, **own}.items():
            entry[variable] = value
        for variable in [variable for variable, value in entry.items() if value is None]:
            del entry[variable]
        there[str(name)] = entry
        if comments is not None:
            there.ca.items[str(name)] = comments

    try:
        return with_fields(file, change)
    except (AttributeError, TypeError, KeyError):
        way = f"by hand: take {name} out of {before} and put it into {after}; then run this again"
        raise ConfigError(f"{HOSTS_FILE}: {name} is in {before} by another group's name", hint=way) from None


def _take_comments(hosts: Any, name: str) -> Any:
    """What is beside and below a host that goes; None: nothing, or these are plain data."""
    return hosts.ca.items.pop(name, None) if hasattr(hosts, "ca") else None


def inventory_files(inventory: Path) -> Iterator[Path]:
    """Given an inventory's directory, yield the YAML files of it that Ansible reads: of hosts, then of variables.

    Hidden files are left out: a Mac puts some into any directory (.DS_Store, ._hosts.yml), and they are not YAML.
    """
    places = [one for one in sorted(inventory.iterdir()) if one.suffix in (".yml", ".yaml")]
    for name in FOLDERS:
        below = sorted((inventory / name).rglob("*"))
        places += [one for one in below if one.suffix in ("", ".yml", ".yaml", ".json")]
    for path in places:
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(inventory).parts):
            yield path


def host_names(file: YamlFile) -> list[str]:
    """Given an inventory file, return the names of the hosts in it, each once."""
    return list(dict.fromkeys(name for _, one in find_groups(file.data) for name in parse_members(one.get("hosts"))))


def _put(data: Any, host: SiteHost) -> None:
    there = [group["hosts"] for _, group in find_groups(data) if host.name in (group.get("hosts") or {})]
    if not there:
        for index, name in enumerate(host.groups):
            _ensure_group_hosts(data, name)[host.name] = dict(host.variables) if index == 0 else {}
        return
    # the entry that says how it is reached; of several, one has them
    place = next((hosts for hosts in there if (hosts[host.name] or {}).keys() & host.variables.keys()), there[0])
    if place[host.name] is None:
        place[host.name] = {}
    entry = place[host.name]
    for name, value in host.variables.items():
        if entry.get(name) != value:
            entry[name] = value


def _ensure_group_hosts(data: Any, name: str) -> MutableMapping[str, Any]:
    """The hosts of a group; makes the group if it is missing."""
    group = next((found for named, found in find_groups(data) if named == name), None)
    if group is None:
        group = _below(_below(_below(data, "all"), "children"), name)
    return _below(group, "hosts")


def _below(node: MutableMapping[str, Any], name: str) -> MutableMapping[str, Any]:
    if node.get(name) is None:
        node[name] = {}
    below: MutableMapping[str, Any] = node[name]
    return below


def find_groups(data: Any) -> Iterator[tuple[str, MutableMapping[str, Any]]]:
    """Every group of an inventory that holds something, with its name: Ansible allows them inside of each other."""
    for name, group in data.items():
        if group is not None:
            yield name, group
            yield from find_groups(parse_members(group.get("children")))


def parse_members(value: Any) -> Mapping[str, Any]:
    """The hosts or children of a group: Ansible takes a text for the name of the only one."""
    return {value: None} if isinstance(value, str) else value or {}

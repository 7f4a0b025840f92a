"""A site's inventory, read by Ansible itself so that whatever Ansible accepts is accepted here."""

from __future__ import annotations

import contextlib
import io
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager

from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.reading import refuse_irregular


@dataclass(frozen=True)
class Host:
    """A host: its inventory name, its groups, and how it is reached."""

    name: str
    groups: tuple[str, ...]
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """What ssh connects to."""
        return str(self.variables.get("ansible_host", self.name))

    @property
    def cluster_address(self) -> str:
        """What other hosts of the site connect to; inventory/groups.yml has the default, which is a template."""
        value = str(self.variables.get("gpuadmin_address", ""))
        return value if value and "{{" not in value else self.address

    @property
    def port(self) -> int:
        return int(self.variables.get("ansible_port", 22))


@dataclass(frozen=True)
class Inventory:
    """All hosts of a site, in the order of its files."""

    directory: Path
    hosts: tuple[Host, ...]

    @property
    def sources(self) -> tuple[Path, ...]:
        """What Ansible is given: gpuadmin's own groups and variables first, the site's after and above them."""
        return (content_path("inventory"), self.directory)

    def group(self, *names: str) -> tuple[Host, ...]:
        """The hosts that are in any of the groups."""
        return tuple(host for host in self.hosts if set(names) & set(host.groups))

    def limited(self, pattern: str | None) -> tuple[Host, ...]:
        """The hosts that an Ansible pattern names. Raises ConfigError where it names none."""
        if pattern is None:
            return self.hosts
        names = _manager(self.directory, pattern)
        if not names:
            known = ", ".join(host.name for host in self.hosts) or "none"
            raise ConfigError(f"--limit {pattern}: names no host of this site", hint=f"its hosts are: {known}")
        return tuple(host for host in self.hosts if host.name in names)


def load_inventory(directory: Path) -> Inventory:
    """Given a site's directory, return its inventory."""
    folder = directory / "inventory"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory", hint="gpuadmin init DIR shows what a site looks like")
    manager = _load(folder)
    variables = VariableManager(loader=manager._loader, inventory=manager)

    def connection(host: Any) -> dict[str, Any]:
        # host_vars/ and group_vars/ count as well, so Ansible is asked rather than the inventory line
        known = variables.get_vars(host=host, include_hostvars=False, use_cache=False)
        return {name: known[name] for name in ("ansible_host", "ansible_port", "gpuadmin_address") if name in known}

    hosts = tuple(
        Host(
            name=host.name,
            groups=tuple(sorted(group.name for group in host.get_groups() if group.name != "all")),
            variables=connection(host),
        )
        for host in manager.get_hosts("all")
    )
    return Inventory(folder, hosts)


def _manager(folder: Path, pattern: str) -> frozenset[str]:
    manager = _load(folder)
    try:
        manager.subset(pattern)
        return frozenset(host.name for host in manager.get_hosts("all"))
    except Exception as error:  # Ansible's own errors have no common public base for patterns
        raise ConfigError(f"--limit {pattern}: {error}") from None


def _load(folder: Path) -> Any:
    # Ansible warns on stderr about empty groups and sources; what matters is checked below and in check.py.
    _refuse_irregular(folder)
    for source in sorted(folder.iterdir()):
        if source.suffix in (".yml", ".yaml") and source.is_file():
            _check_yaml(source)
    sources = [str(content_path("inventory")), str(folder)]
    noise = io.StringIO()
    try:
        with contextlib.redirect_stderr(noise):
            manager = InventoryManager(loader=DataLoader(), sources=sources)
    except AnsibleError as error:
        raise ConfigError(f"{folder}: {error}") from None
    return manager


def _refuse_irregular(folder: Path, above: tuple[tuple[int, int], ...] = ()) -> None:
    """Ansible reads every file of it, and would wait for ever at a named pipe."""
    for path in sorted(folder.iterdir()):
        try:
            facts = path.stat()
        except OSError:  # a link that leads nowhere: Ansible leaves it out
            continue
        if stat.S_ISDIR(facts.st_mode):
            here = facts.st_dev, facts.st_ino
            if here not in above:
                _refuse_irregular(path, (*above, here))
            continue
        try:
            refuse_irregular(facts, path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", hint="take it out of the inventory") from None


def _check_yaml(source: Path) -> None:
    """Ansible only warns about an inventory file that it cannot parse; for us that would be a cluster without hosts."""
    YamlFile.load(source)

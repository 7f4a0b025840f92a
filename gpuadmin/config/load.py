"""Loading a site's files, with errors that name file, line and path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE, find_site
from gpuadmin.config.inventory import Inventory, load_inventory
from gpuadmin.config.known_hosts import read_known_hosts
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings
from gpuadmin.config.validate import validated
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.errors import ConfigError, together

__all__ = ["SETTINGS_FILE", "USERS_FILE", "Site", "find_site", "load_settings", "load_site"]

KNOWN_HOSTS = "known_hosts"
LoadedT = TypeVar("LoadedT")


@dataclass(frozen=True)
class Site:
    """A loaded and valid site."""

    directory: Path
    settings: Settings
    registry: RegistryFile
    inventory: Inventory

    @property
    def known_hosts(self) -> Path:
        """The pinned ssh host keys."""
        return self.directory / KNOWN_HOSTS

    @property
    def runs(self) -> Path:
        """The record of past runs."""
        return self.directory / "runs"


@dataclass(frozen=True)
class Parts:
    """What of a site could be loaded, and every mistake of what could not."""

    directory: Path
    settings: Settings | None
    registry: RegistryFile | None
    inventory: Inventory | None
    mistakes: tuple[ConfigError, ...]

    def site(self) -> Site:
        """The whole site. Raises ConfigError with every mistake."""
        if self.settings is None or self.registry is None or self.inventory is None or self.mistakes:
            raise together(self.mistakes)
        return Site(self.directory, self.settings, self.registry, self.inventory)


def load_site(given: str | None) -> Site:
    """Load and validate the whole site. Raises ConfigError with every mistake that the files hold."""
    return load_parts(find_site(given)).site()


def load_parts(directory: Path) -> Parts:
    """Given a site's directory, load each file of it, whatever is wrong with the others."""
    mistakes: list[ConfigError] = []

    def tried(load: Callable[[], LoadedT]) -> LoadedT | None:
        try:
            return load()
        except ConfigError as error:
            mistakes.append(error)
            return None

    settings = tried(lambda: load_settings(directory))
    registry = tried(lambda: RegistryFile.load(directory / USERS_FILE, settings))
    inventory = tried(lambda: load_inventory(directory))
    # guard: a site's known_hosts is looked at before ssh reads it
    tried(lambda: read_known_hosts(directory / KNOWN_HOSTS))  # ssh would wait for ever at a named pipe
    return Parts(directory, settings, registry, inventory, tuple(mistakes))


def load_settings(directory: Path) -> Settings:
    """Load gpuadmin.yml."""
    file = YamlFile.load(directory / SETTINGS_FILE)
    return validated(Settings, file)

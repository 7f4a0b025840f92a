"""Loading a site's files, with errors that name file, line and path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE, find_site
from gpuadmin.config.inventory import Inventory, load_inventory
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings
from gpuadmin.config.validate import validated
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.reading import read_text

__all__ = ["SETTINGS_FILE", "USERS_FILE", "Site", "find_site", "load_settings", "load_site"]


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
        return self.directory / "known_hosts"

    @property
    def runs(self) -> Path:
        """The record of past runs."""
        return self.directory / "runs"


def load_site(given: str | None) -> Site:
    """Load and validate the whole site. Raises ConfigError with every mistake that the files hold."""
    directory = find_site(given)
    settings = load_settings(directory)
    registry = RegistryFile.load(directory / USERS_FILE, settings)
    site = Site(directory, settings, registry, load_inventory(directory))
    read_text(site.known_hosts)  # ssh would wait for ever at a named pipe
    return site


def load_settings(directory: Path) -> Settings:
    """Load gpuadmin.yml."""
    file = YamlFile.load(directory / SETTINGS_FILE)
    return validated(Settings, file)

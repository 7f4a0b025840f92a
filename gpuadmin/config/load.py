"""Loading a site's files, with errors that name file, line and path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gpuadmin.config.fields import TEMPLATE_MARKERS
from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE, find_site
from gpuadmin.config.inventory import Inventory, load_inventory
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings
from gpuadmin.config.yamlfile import YamlFile
from gpuadmin.errors import ConfigError
from gpuadmin.reading import read_text

ModelT = TypeVar("ModelT", bound=BaseModel)

__all__ = ["SETTINGS_FILE", "USERS_FILE", "Site", "find_site", "load_settings", "load_site", "validated"]


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


def validated(model: type[ModelT], file: YamlFile) -> ModelT:
    """Given a schema and a file, return the model; raise ConfigError with a line per mistake."""
    problems = [f"{file.where(path)}: {text}" for path, text in _markers(file.data)]
    if problems:
        raise ConfigError(
            "\n  ".join(problems),
            hint="template markers are refused in a site's data; write the value itself",
        )
    try:
        return model.model_validate(file.data)
    except ValidationError as error:
        lines = [f"{file.where(item['loc'])}: {_words(item)}" for item in error.errors()]
        raise ConfigError("\n  ".join(lines), hint="gpuadmin schema --reference explains every field") from None


def _words(item: Mapping[str, Any]) -> str:
    """pydantic's message in words that an admin reads without knowing pydantic."""
    given = item.get("input")
    match item["type"]:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "is missing"
        case "value_error":
            return str(item["msg"]).removeprefix("Value error, ")
        case "model_type" | "dict_type":
            return f"must hold fields (key: value), not {type(given).__name__}"
    message = str(item["msg"])
    return f"{message[0].lower()}{message[1:]}" + (
        f" (it is {given!r})" if isinstance(given, str | int | float) else ""
    )


def _markers(value: object, path: Sequence[str | int] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        found = [marker for marker in TEMPLATE_MARKERS if marker in value]
        if found:
            yield tuple(path), f"holds the template marker '{found[0]}'"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _markers(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _markers(item, (*path, index))

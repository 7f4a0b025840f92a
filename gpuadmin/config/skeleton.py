"""Writing a new site directory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.hosts_file import HOSTS_FILE, SiteHost
from gpuadmin.config.reference import SCHEMAS, json_schemas
from gpuadmin.config.schema import Settings
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.reading import read_text

__all__ = ["SiteHost", "keep_out_of_git", "scalar", "write_site"]


def write_site(
    directory: Path,
    *,
    name: str,
    settings: Mapping[str, Any],
    hosts: Sequence[SiteHost],
    known_hosts: str = "",
    schemas: bool = True,
) -> list[str]:
    """Write a valid site. Returns which of the files that people edit were written.

    Those that exist stay as they are. `settings` replace the defaults. Raises ConfigError if it is not a directory.
    """
    chosen = Settings.model_validate({"name": name, **settings})
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory}: is not a directory")
    (directory / "inventory").mkdir(parents=True, exist_ok=True)
    (directory / "runs").mkdir(mode=0o700, exist_ok=True)
    values = {"name": name, "settings": chosen.model_dump(mode="json"), "groups": _groups(hosts)}
    texts = {
        SETTINGS_FILE: lambda: _with_all(_render("gpuadmin.yml.j2", values), settings),
        USERS_FILE: lambda: _render("users.yml.j2", values),
        HOSTS_FILE: lambda: _render("hosts.yml.j2", values),
        "known_hosts": lambda: known_hosts,
    }
    # guard: what is in a directory stays when a site is written into it -> list(texts)
    written = [file for file in texts if not os.path.lexists(directory / file)]
    for file in written:
        write_atomically(directory / file, texts[file]())
    keep_out_of_git(directory, "runs/")
    if schemas:
        (directory / SCHEMAS).mkdir(exist_ok=True)
        for file, schema in json_schemas().items():
            write_atomically(directory / file, schema)
    return written


def keep_out_of_git(directory: Path, name: str) -> None:
    """Add a file or directory of a site to its .gitignore, if it is not there."""
    ignore = directory / ".gitignore"
    lines = read_text(ignore).splitlines()
    if f"/{name}" not in lines:
        write_atomically(ignore, "".join(f"{line}\n" for line in (*lines, f"/{name}")), mode=0o644)


def _with_all(text: str, settings: Mapping[str, Any]) -> str:
    """The text of gpuadmin.yml, with those settings at its end that its template has only as a comment."""
    there = yaml.safe_load(text)
    return text + "".join(
        f"\n{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items() if key not in there
    )


def _groups(hosts: Sequence[SiteHost]) -> list[dict[str, Any]]:
    # a host's variables are written once, at its first group
    seen: set[str] = set()
    groups = []
    for group in GROUPS:
        members = []
        for host in hosts:
            if group in host.groups:
                members.append({"name": host.name, "variables": {} if host.name in seen else dict(host.variables)})
                seen.add(host.name)
        groups.append({"name": group, "hosts": members})
    return groups


def _render(template: str, values: Mapping[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(content_path("templates", "site")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # YAML, not HTML
    )
    environment.filters["scalar"] = scalar
    environment.policies["json.dumps_kwargs"] = {"default": str}  # the inventory may have dates
    return environment.get_template(template).render(values)


def scalar(text: str) -> str:
    """Given a text, return it as YAML that every parser reads as that text: bare where that is safe, else quoted."""
    bare = re.fullmatch(r"[A-Za-z_/~][A-Za-z0-9_./~-]*", text) and yaml.safe_load(text) == text
    return text if bare else json.dumps(text, ensure_ascii=False)

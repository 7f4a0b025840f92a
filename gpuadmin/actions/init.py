"""Write a new site directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from gpuadmin.config.fields import host_name
from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.console import echo, echo_document
from gpuadmin.errors import ConfigError
from gpuadmin.report import local_document


def init(
    directory: Path, *, name: str | None, admin: str | None, storage: str | None, nodes: Sequence[str], as_json: bool
) -> int:
    """Write a site for these hosts, of which the first node is golden. Returns the exit code."""
    if (directory / SETTINGS_FILE).exists():
        raise ConfigError(
            f"{directory}: holds a site already", hint="nothing was changed; edit it, then: gpuadmin check"
        )
    try:
        for host in (*nodes, *([storage] if storage else [])):
            host_name(host)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    hosts = [SiteHost(storage, ("storage",))] if storage else []
    hosts += [SiteHost(node, ("gpu", "golden") if index == 0 else ("gpu",)) for index, node in enumerate(nodes)]
    settings = {"admin": {"user": admin}} if admin else {}
    try:
        write_site(directory, name=name or directory.absolute().name, settings=settings, hosts=hosts)
    except ValidationError as error:
        raise ConfigError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
    written = [SETTINGS_FILE, USERS_FILE, "inventory/hosts.yml"]
    todo = [] if storage and nodes else ["name your hosts in inventory/hosts.yml"]
    todo += ["gpuadmin check", "gpuadmin trust --all", "gpuadmin provision --check", "gpuadmin provision"]
    if as_json:
        echo_document(local_document("init", {"files": written, "next": todo}, site=directory.absolute()))
        return 0
    echo(f"Wrote {directory}: {', '.join(written)}")
    echo(f"Next, in {directory}:\n  " + "\n  ".join(todo))
    return 0

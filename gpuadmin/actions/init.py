"""Write a new site directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from gpuadmin.config.check import findings
from gpuadmin.config.fields import host_name
from gpuadmin.config.find import SETTINGS_FILE
from gpuadmin.config.hosts_file import HOSTS_FILE, SiteHost
from gpuadmin.config.load import load_site
from gpuadmin.config.schema import Settings
from gpuadmin.config.skeleton import write_site
from gpuadmin.config.validate import mistakes
from gpuadmin.console import echo, echo_document
from gpuadmin.errors import ConfigError
from gpuadmin.report import local_document

#: How the hosts let gpuadmin in, in the list of what to do next.
BOOTSTRAP = "gpuadmin bootstrap {} --as USER --ask-pass --ask-become-pass"
TRUST = "# or, where the admin account is there already: gpuadmin trust --all"


def init(
    directory: Path, *, name: str | None, admin: str | None, storage: str | None, nodes: Sequence[str], as_json: bool
) -> int:
    """Write a site for these hosts, of which the first node is golden. Returns the exit code."""
    if (directory / SETTINGS_FILE).exists():
        raise ConfigError(
            f"{directory}: holds a site already", hint="nothing was changed; edit it, then: gpuadmin check"
        )
    if os.path.lexists(directory / HOSTS_FILE):
        raise ConfigError(
            f"{directory / HOSTS_FILE}: is there already; the hosts would be written into it",
            hint="nothing was changed; move it away, or name another directory",
        )
    named = [*nodes, *([] if storage is None else [storage])]
    try:
        for host in named:
            host_name(host)
    except ValueError as error:
        several = any("," in host for host in named)
        hint = "give --node once for each: --node gpu1 --node gpu2" if several else None
        raise ConfigError(str(error), hint=hint) from None
    for host in named:
        if named.count(host) > 1:
            raise ConfigError(f"'{host}' is named twice", hint="a host is a node or the storage host, once")
    hosts = [SiteHost(storage, ("storage",))] if storage else []
    hosts += [SiteHost(node, ("gpu", "golden") if index == 0 else ("gpu",)) for index, node in enumerate(nodes)]
    settings = {} if admin is None else {"admin": {"user": admin}}
    called = directory.absolute().name if name is None else name
    try:
        _refuse(called, settings, hosts)
        written = write_site(directory, name=called, settings=settings, hosts=hosts)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, place))}: {words}" for place, words in mistakes(Settings, error)]
        raise ConfigError("\n  ".join(found), hint="nothing was written") from None
    todo = [] if storage and nodes else ["name your hosts in inventory/hosts.yml"]
    bootstrap = BOOTSTRAP.format(" ".join(named) or "HOST…")
    todo += ["gpuadmin check", bootstrap, "gpuadmin provision --check", "gpuadmin provision"]
    if as_json:
        echo_document(local_document("init", {"files": written, "next": todo}, site=directory.absolute()))
        return 0
    echo(f"Wrote {directory}: {', '.join(written)}")
    todo.insert(todo.index(bootstrap) + 1, TRUST)
    echo(f"Next, in {directory}:\n  " + "\n  ".join(todo))
    return 0


def _refuse(name: str, settings: Mapping[str, Any], hosts: Sequence[SiteHost]) -> None:
    """Raise ConfigError for what `gpuadmin check` would refuse. Hosts that are not named yet are not a mistake."""
    with TemporaryDirectory(prefix="gpuadmin-") as there:
        write_site(Path(there), name=name, settings=settings, hosts=hosts, schemas=False)
        found = findings(load_site(there))
    groups = {group for host in hosts for group in host.groups}
    wrong = [
        finding for finding in found
        if finding.level == "error" and hosts and finding.where.rpartition(" ")[2] not in {"gpu", "storage"} - groups
    ]  # fmt: skip
    if wrong:
        lines = [f"{finding.where}: {finding.message}" for finding in wrong]
        raise ConfigError("\n  ".join(lines), hint="; ".join(dict.fromkeys(finding.hint for finding in wrong)))

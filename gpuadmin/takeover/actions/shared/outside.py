"""Asking hosts that are not in a site (yet): they get a site of their own while they are asked."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpuadmin.actions.bootstrap import Entrance
from gpuadmin.actions.trust import pin
from gpuadmin.ansible import connections
from gpuadmin.config.fields import host_name
from gpuadmin.config.hosts_file import SiteHost
from gpuadmin.config.skeleton import write_site
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.results import HostResult, RunResult
from gpuadmin.session import Session, opened

#: Hosts that are asked at a time: each has a process here, of some 20 MiB with what it answers.
AT_ONCE = 8
#: A group that no role decides anything by here: each host has to be in one.
_GROUP = "gpu"
_NAMED = re.compile(r"(?P<name>[^=]+?)(=(?P<address>[^=]+?))?(:(?P<port>[0-9]{1,5}))?")
#: How a host says that whoever logs in there cannot become root: by sudo's own words and Ansible's.
_NO_ROOT = re.compile(
    r"sudo|become|privilege escalation|not in the sudoers|password is required|Missing .* password", re.IGNORECASE
)


@dataclass(frozen=True)
class Asked:
    """What came of asking: the run's results, and which hosts were asked without root, and why."""

    run: RunResult
    without_root: Mapping[str, str] = field(default_factory=dict)


def named(words: Sequence[str]) -> list[SiteHost]:
    """Given hosts as an admin names them, `NAME`, `NAME=ADDRESS`, each with `:PORT` or not, return them.

    Raises ConfigError for what is not a host, and for one that is named twice.
    """
    found: dict[str, SiteHost] = {}
    for word in words:
        match = _NAMED.fullmatch(word)
        name, address, port = (match["name"], match["address"], match["port"]) if match else (word, None, None)
        try:
            host_name(name)
            if address is not None:
                host_name(address)
        except ValueError as error:
            raise ConfigError(
                str(error), hint="name hosts as ssh does, or NAME=ADDRESS, or NAME=ADDRESS:PORT"
            ) from None
        if port is not None and not 0 < int(port) < 65536:
            raise ConfigError(f"{word}: {port} is not a port from 1 to 65535")
        if name in found:
            raise ConfigError(f"'{name}' is named twice", hint="name each host once")
        fields = {"ansible_host": address, "ansible_port": None if port is None else int(port)}
        found[name] = SiteHost(name, (_GROUP,), {key: value for key, value in fields.items() if value is not None})
    return list(found.values())


@contextmanager
def outside(
    verb: str,
    options: Options,
    hosts: Sequence[SiteHost],
    *,
    admin: str,
    ssh_key: str | None = None,
    known_hosts: str = "",
    site: Path | None = None,
) -> Iterator[Session]:
    """A verb in progress on hosts that are in no site. `admin`: the account that gpuadmin has there, or will have.

    `known_hosts`: the text of what is pinned already. What is pinned meanwhile is in the session's own file. `site`:
    the one that this is about: the record of it goes there, if it is a directory by then.
    """
    with TemporaryDirectory(prefix="gpuadmin-") as there:
        where = Path(there) / "site"
        settings: dict[str, Any] = {"admin": {"user": admin, **({"ssh_key": ssh_key} if ssh_key else {})}}
        staged = [replace(host, groups=(_GROUP,)) for host in hosts]
        write_site(
            where, name="hosts", settings=settings, hosts=staged, known_hosts=known_hosts, schemas=False
        )  # fmt: skip
        try:
            with opened(verb, options, directory=where) as session:
                session.about = site
                try:
                    yield session
                finally:
                    connections.close(session.site.known_hosts)  # nobody finds them again
        finally:
            if site is not None and (runs := site / "runs").is_dir():
                for record in (one for one in (where / "runs").iterdir() if one.is_dir()):
                    shutil.copytree(record, runs / record.name)


def ask(session: Session, playbook: str, entrance: Entrance, variables: Mapping[str, Any] | None = None) -> Asked:
    """Look at all hosts of the session: their keys are shown and pinned first, root is asked for, and done without.

    A host whose key is not pinned is not asked. One that lets nobody become root is asked once more, without root.
    """
    values = {**(variables or {}), **entrance.variables()}
    keys = pin(session, session.site.inventory.hosts, place="a known_hosts of this run")
    absent = {
        name: HostResult("unreachable", message=key["message"] or "its host key is not pinned; it is shown above")
        for name, key in keys.items()
        if key["state"] not in ("pinned", "new") or (key["state"] == "new" and session.check)
    }
    strangers = [
        host.name
        for host in session.site.inventory.hosts
        if host.name not in absent  # guard: a host that is in no site is asked when its key is pinned
    ]
    found = session.look(playbook, strangers, values, at_once=AT_ONCE)
    refused = {
        name: host.message or "sudo refused it"
        for name, host in found.hosts.items()
        if host.bad and not host.reports and _NO_ROOT.search(host.message or "")
    }
    again = (
        session.look(playbook, list(refused), {**values, "ansible_become": False}, at_once=AT_ONCE)
        if refused
        else RunResult({})
    )
    hosts = {**absent, **found.hosts, **again.hosts}
    return Asked(replace(found, hosts=hosts), refused)

"""Log in to a host as the admin."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpuadmin.ansible import connections
from gpuadmin.config.load import Site, load_site


def ssh(directory: str | None, host: str, arguments: Sequence[str]) -> int:
    """Become an ssh to a host, with more arguments for it. Does not return."""
    line = command_line(load_site(directory), host, arguments)
    os.execv(connections.require_ssh(), line)


def command_line(site: Site, name: str, arguments: Sequence[str]) -> list[str]:
    """Return the ssh that reaches a host as a run of a playbook does. Raises ConfigError for an unknown host."""
    (host,) = site.inventory.named([name])
    login = site.inventory.login(host, site.settings)
    line = ["ssh", *connections.options(site.known_hosts), *login.arguments, "-p", str(login.port)]
    if login.key is not None:
        line += ["-o", f"IdentityFile={connections.quoted(login.key)}"]  # as Ansible does; -i would look for "%%"
    if login.user:
        line += ["-l", login.user]
    return [*line, login.address, *arguments]

"""gpuadmin ssh"""

from __future__ import annotations

import click

from gpuadmin.cli._options import HostCommand, site_option


@click.command("ssh", cls=HostCommand)
@click.argument("host")
@click.argument("arguments", metavar="[-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
@site_option
def command(host: str, arguments: tuple[str, ...], site: str | None) -> int:
    """Log in to a host as the admin account, with the site's key and known_hosts.

    ARGS are ssh's own, as they come after the host: options (-L 3000:localhost:3000), then a command. The exit code is
    ssh's. No plan is made and no record is kept. Options for gpuadmin come before HOST, or before `--`.
    """
    from gpuadmin.actions.ssh import ssh

    return ssh(site, host, arguments[1:] if arguments[:1] == ("--",) else arguments)

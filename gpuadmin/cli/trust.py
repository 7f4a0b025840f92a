"""gpuadmin trust"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import hosts
from gpuadmin.cli._options import json_option, site_option
from gpuadmin.options import Options


@click.command("trust")
@click.argument("names", metavar="[HOST]...", nargs=-1, shell_complete=hosts())
@click.option("--all", "everybody", is_flag=True, help="Every host of the site.")
@click.option("--replace", is_flag=True, help="Accept a key that differs from the pinned one (a reinstalled host).")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@site_option
@json_option
def command(
    names: tuple[str, ...],
    everybody: bool,
    replace: bool,
    yes: bool,
    site: str | None,
    as_json: bool,
) -> int:
    """Fetch the ssh host keys of hosts, show their fingerprints, and pin them into the site's known_hosts.

    Compare a fingerprint with what the host itself says: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from gpuadmin.actions.trust import trust

    if bool(names) == everybody:
        raise click.UsageError("name the hosts, or give --all")
    return trust(Options(site=site, yes=yes, json=as_json), names, replace=replace)

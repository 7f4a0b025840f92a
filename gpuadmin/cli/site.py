"""The verbs of a site: its files, and the host keys that it pins."""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._complete import hosts
from gpuadmin.cli._options import json_option, site_option
from gpuadmin.options import Options


@click.command("init")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--name", help="The cluster's name. [default: the directory's]")
@click.option("--admin", "admin", metavar="USER", help="The account that gpuadmin logs in as. [default: gpuadmin]")
@click.option("--storage", metavar="HOST", help="The host that serves the homes.")
@click.option("--node", "nodes", metavar="HOST", multiple=True, help="A GPU node; repeatable, the first is golden.")
@json_option
def init(
    directory: str, name: str | None, admin: str | None, storage: str | None, nodes: tuple[str, ...], as_json: bool
) -> int:
    """Write a new site: gpuadmin.yml, users.yml, inventory/, with comments that explain them.

    \b
    gpuadmin init mycluster --storage nas1 --node gpu1 --node gpu2
    """
    from gpuadmin.actions.init import init

    if not directory:  # a variable that is not set
        raise click.BadParameter("names no directory", param_hint="DIR")
    return init(Path(directory), name=name, admin=admin, storage=storage, nodes=nodes, as_json=as_json)


@click.command("check")
@site_option
@json_option
def check(site: str | None, as_json: bool) -> int:
    """Check a site for mistakes: schema, inventory, duplicate names, ids and keys, dates. Asks no host."""
    from gpuadmin.actions.check import check

    return check(site, as_json=as_json)


@click.command("trust")
@click.argument("names", metavar="[HOST]...", nargs=-1, shell_complete=hosts())
@click.option("--all", "everybody", is_flag=True, help="Every host of the site.")
@click.option("--replace", is_flag=True, help="Accept a key that differs from the pinned one (a reinstalled host).")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@site_option
@json_option
def trust(
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

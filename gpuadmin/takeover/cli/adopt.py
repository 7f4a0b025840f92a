"""gpuadmin adopt"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("adopt")
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option(
    "--admin", "login", metavar="USER", help="Whom you can log in as now. [default: root, or the site's admin]"
)
@click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The private key of that login. [default: the site's, or ssh's own]",
)
@click.option("--name", help="The cluster's name, in a new site. [default: the directory's]")
@run_options(limit=False)
def command(
    options: Options, hosts: tuple[str, ...], login: str | None, identity: Path | None, name: str | None
) -> int:
    """Look at machines that people work on, and write a site for them.

    Changes nothing on them, and needs nothing there but Python 3.9 and ssh. HOST is a name, or NAME=ADDRESS, each with
    :PORT or not. The site (--site DIR, a new directory) has groups, people, uids, keys and settings as they are;
    adoption.md says what was found, and what does not fit yet, with what to do about it. Run again, with or without
    HOST, it adds what is new, and leaves alone what is there. No password hash and no private key is read.

    \b
    gpuadmin adopt gpu1 gpu2 nas1 --admin minji --ask-become-pass --site mycluster
    """
    from gpuadmin.takeover.actions.adopt import adopt

    return adopt(options, hosts, login=login, identity=identity, name=name)

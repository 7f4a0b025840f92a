"""gpuadmin bootstrap"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("bootstrap")
@click.argument("names", metavar="HOST...", nargs=-1, required=True)
@click.option("--as", "login", metavar="USER", default="root", show_default=True, help="Whom you can log in as now.")
@click.option(
    "--identity",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The private key of that login. [default: the site's]",
)
@click.option(
    "--uid",
    type=WholeNumber(100, 65533),
    default=900,
    show_default=True,
    help="The uid of a new admin account; the same on all hosts.",
)
@click.option("--home", metavar="DIR", help="The home of a new admin account. [default: /var/home/NAME]")
@run_options()
def command(
    options: Options, names: tuple[str, ...], login: str, identity: Path | None, uid: int, home: str | None
) -> int:
    """Make machines that one can log in to ready for gpuadmin.

    Shows and pins the host key, installs Python and sudo where they are missing, makes the admin account (admin.user)
    with sudo and the public key of admin.ssh_key, and proves it by logging in. No login of anybody is taken away, and
    password logins stay as they are. --ask-pass asks for the password of USER, --ask-become-pass for its sudo password.
    """
    from gpuadmin.actions.bootstrap import Entrance, bootstrap

    return bootstrap(options, names, Entrance(login, identity), uid=uid, home=home)

"""gpuadmin move-homes"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("move-homes")
@click.argument("users", metavar="[USER...]", nargs=-1, shell_complete=people())
@click.option("--main", "mains", metavar="USER=HOST", multiple=True, help="Whose home on which node becomes the home.")
@click.option("--discard", is_flag=True, help="Delete the old homes that earlier moves left on nodes.")
@run_options()
def command(users: tuple[str, ...], mains: tuple[str, ...], discard: bool, options: Options) -> int:
    """Move people's homes from the disks of nodes to the storage host.

    Without names: everybody who has a home on a node. Homes are copied while people work. Then their accounts close for
    as long as it takes to fetch what has changed and to compare everything, and the homes get their names. Of several
    homes of a person the largest becomes the home (or that of --main); the others are in it as before-HOST/. The old
    ones stay, renamed, until --discard. After a kill or a power cut the same command goes on.

    \b
    gpuadmin move-homes --check
    gpuadmin move-homes minji --main minji=gpu2
    gpuadmin move-homes --discard
    """
    from gpuadmin.takeover.actions.move_homes import discard_homes, move_homes

    if discard:
        if mains:
            raise click.UsageError("--main and --discard do not go together")
        return discard_homes(options, users)
    return move_homes(options, users, mains)

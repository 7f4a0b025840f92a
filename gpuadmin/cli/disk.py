"""gpuadmin disk"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("disk")
@click.argument("name", metavar="[USER]", required=False, shell_complete=people())
@run_options(changes=False)
def command(name: str | None, options: Options) -> int:
    """Show whose files fill the disks: homes, Docker's data and scratch; of USER, the largest directories, too.

    Nothing is walked for it: every host measures once a day, and says when. It changes nothing.

    \b
    gpuadmin disk
    gpuadmin disk minji
    gpuadmin disk --limit storage
    """
    from gpuadmin.actions.disk import show_disk

    return show_disk(options, name)

"""gpuadmin list-backups"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("list-backups")
@click.argument("user", metavar="[USER]", required=False, shell_complete=people(removed=True))
@run_options(changes=False)
def command(user: str | None, options: Options) -> int:
    """Show the backups there are, whose homes are in them, and until when they stay. Changes nothing."""
    from gpuadmin.actions.list_backups import list_backups

    return list_backups(options, user)

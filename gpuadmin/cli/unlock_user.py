"""gpuadmin unlock-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("unlock-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people(locked=True))
@run_options()
def command(names: tuple[str, ...], options: Options) -> int:
    """Let locked people log in again, until their account expires."""
    from gpuadmin.actions.unlock_user import unlock_user

    return unlock_user(options, names)

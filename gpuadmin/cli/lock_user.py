"""gpuadmin lock-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("lock-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people(locked=False))
@run_options()
def command(names: tuple[str, ...], options: Options) -> int:
    """Stop people from logging in, by key or password, on every node. Nothing of theirs is touched."""
    from gpuadmin.actions.lock_user import lock_user

    return lock_user(options, names)

"""gpuadmin renumber"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("renumber")
@click.argument("users", metavar="[USER...]", nargs=-1, shell_complete=people())
@run_options()
def command(users: tuple[str, ...], options: Options) -> int:
    """Give people the uid that users.yml says, on every host, with all files that carry the old one.

    Without names: everybody whose uid differs somewhere. It looks on all local file systems, shows files and bytes for
    each host, and asks. Whoever runs something is left alone. The others cannot log in until it has ended.
    After a kill or a power cut the same command goes on.

    \b
    gpuadmin renumber --check
    gpuadmin renumber minji jiho
    """
    from gpuadmin.actions.renumber import renumber

    return renumber(options, users)

"""gpuadmin revoke"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("revoke")
@click.argument("names", metavar="NAME|ID...", nargs=-1, required=True, shell_complete=people())
@run_options()
def command(names: tuple[str, ...], options: Options) -> int:
    """End grants before their time: all of a person's, or the one with an ID.

    Nothing new can open those GPUs from then on. What already holds one keeps it until it lets it go.

    A grant that Slurm's queue has made ends with its job, which is cancelled.

    \b
    gpuadmin revoke minji --limit gpu1
    gpuadmin revoke 1f2e3d4c
    """
    from gpuadmin.actions.revoke import revoke

    return revoke(options, names)

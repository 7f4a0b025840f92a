"""gpuadmin resume"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import hosts
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("resume")
@click.argument("nodes", metavar="HOST...", nargs=-1, required=True, shell_complete=hosts())
@run_options(limit=False)
def command(nodes: tuple[str, ...], options: Options) -> int:
    """Let nodes take jobs of the queue again: those that were drained, and those that Slurm has drained itself.

    `gpuadmin queue` shows which nodes take none, and why.
    """
    from gpuadmin.actions.resume import resume

    return resume(options, nodes)

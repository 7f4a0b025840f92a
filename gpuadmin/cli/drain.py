"""gpuadmin drain"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import hosts
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("drain")
@click.argument("nodes", metavar="HOST...", nargs=-1, required=True, shell_complete=hosts())
@click.option("--reason", metavar="TEXT", help="Why; everybody can read it.  [default: an admin drains it]")
@run_options(limit=False)
def command(nodes: tuple[str, ...], reason: str | None, options: Options) -> int:
    """Let nodes take no further jobs of the queue. What runs there goes on until it ends.

    \b
    gpuadmin drain gpu1 --reason 'new image at six'
    gpuadmin resume gpu1
    """
    from gpuadmin.actions.drain import drain

    return drain(options, nodes, reason)

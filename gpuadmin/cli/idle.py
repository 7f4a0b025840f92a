"""gpuadmin idle"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("idle")
@run_options(changes=False)
@click.option(
    "--hours", type=WholeNumber(1, 168), metavar="N", help="Not used for so long.  [default: metrics.idle_hours]"
)
def command(options: Options, hours: int | None) -> int:
    """Show who holds a GPU and has not used it once for hours, and what the site's policy says of it.

    Nothing is stopped and nobody is mailed. MIG devices are left out: the driver does not say
    how busy they are.
    """
    from gpuadmin.actions.idle import show_idle

    return show_idle(options, hours=hours)

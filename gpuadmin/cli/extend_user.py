"""gpuadmin extend-user"""

from __future__ import annotations

from datetime import date

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import as_day, run_options
from gpuadmin.options import Options


@click.command("extend-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--expires",
    metavar="DATE",
    required=True,
    callback=as_day,
    help="Last day of validity, YYYY-MM-DD, or 'never'.",
)
@run_options()
def command(names: tuple[str, ...], expires: date | None, options: Options) -> int:
    """Set until when accounts are valid."""
    from gpuadmin.actions.extend_user import extend_user

    return extend_user(options, names, expires)

"""gpuadmin extend-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import Options, run_options


@click.command("extend-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option("--expires", metavar="DATE", required=True, help="Last day of validity, YYYY-MM-DD, or 'never'.")
@run_options()
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], expires: str, options: Options) -> None:
    """Set until when accounts are valid."""
    from gpuadmin.cli._accounts import update
    from gpuadmin.config.fields import iso_date

    try:
        day = None if expires == "never" else iso_date(expires)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--expires") from None
    words = "without an end" if day is None else f"valid until {day}"
    ctx.exit(update("extend-user", options, names, {"expires": day}, action=lambda user: f"{user.name}: {words}"))

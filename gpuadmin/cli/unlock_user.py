"""gpuadmin unlock-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import Options, run_options


@click.command("unlock-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people(locked=True))
@run_options()
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], options: Options) -> None:
    """Let locked people log in again, until their account expires."""
    from gpuadmin.cli._accounts import update

    ctx.exit(
        update(
            "unlock-user",
            options,
            names,
            {"locked": False},
            action=lambda user: f"{user.name}: allow logins again",
        )
    )

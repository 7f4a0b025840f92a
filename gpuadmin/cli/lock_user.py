"""gpuadmin lock-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import Options, run_options


@click.command("lock-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people(locked=False))
@run_options()
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], options: Options) -> None:
    """Stop people from logging in, by key or password, on every node. Nothing of theirs is touched."""
    from gpuadmin.accounts import refuse_protected
    from gpuadmin.cli._accounts import update

    ctx.exit(
        update(
            "lock-user",
            options,
            names,
            {"locked": True},
            before=lambda verb: refuse_protected(verb.site.settings, names, "lock-user"),
            action=lambda user: f"{user.name}: refuse every login from now on",
        )
    )

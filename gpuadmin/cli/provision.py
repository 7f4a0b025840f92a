"""gpuadmin provision"""

from __future__ import annotations

import click

from gpuadmin.cli._options import Options, run_options


@click.command("provision")
@run_options()
@click.pass_context
def command(ctx: click.Context, options: Options) -> None:
    """Set nodes and the storage host up: all roles that a host's groups call for, and the accounts."""
    from gpuadmin.cli._roles import provision_work
    from gpuadmin.cli._verb import opened, perform

    with opened("provision", options) as verb:
        ctx.exit(perform(verb, provision_work(verb, title=f"Set up the hosts of {verb.site.settings.name}")))

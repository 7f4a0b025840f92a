"""gpuadmin sync-users"""

from __future__ import annotations

import click

from gpuadmin.cli._options import Options, run_options
from gpuadmin.words import counted


@click.command("sync-users")
@run_options()
@click.pass_context
def command(ctx: click.Context, options: Options) -> None:
    """Bring every host to what users.yml says: what heals a node that was down, or after editing by hand."""
    from gpuadmin.accounts import variables
    from gpuadmin.cli._accounts import account_result
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.plan import PlanBuilder

    with opened("sync-users", options) as verb:
        registry = verb.site.registry.registry
        builder = PlanBuilder(f"Bring {verb.site.settings.name} to what users.yml says")
        people = counted(len(registry.users), "account")
        builder.add_all(verb.named("storage"), [f"{people} and their homes"])
        builder.add_all(verb.named("gpu"), [f"{people}, keys, subids and Docker directories"])
        if registry.retired:
            removed = counted(len(registry.retired), "removed account stays", "removed accounts stay") + " away"
            builder.add_all(verb.named("gpu", "storage"), [removed])
        absent = [(entry.name, entry.uid) for entry in registry.retired]
        work = Work(
            plan=builder.build(),
            variables=variables(verb.site.registry, verb.site.settings, registry.users, absent),
            result=account_result,
            observe=True,
        )
        ctx.exit(perform(verb, work))

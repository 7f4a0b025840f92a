"""gpuadmin prepare-root"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options

if TYPE_CHECKING:
    from gpuadmin.run import RunResult


@click.command("prepare-root")
@run_options()
@click.pass_context
def command(ctx: click.Context, options: Options) -> None:
    """Check the disk layout that images need, and complete it: directories, boot units, health checks, identity.

    A node that boots differently is reported with what would have to change, and is not touched.
    """
    from gpuadmin.cli._images import require_storage, signing_key, variables
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.plan import PlanBuilder

    with opened("prepare-root", options) as verb:
        require_storage(verb)
        key = signing_key(verb.site)
        builder = PlanBuilder(f"Prepare the hosts of {verb.site.settings.name} for images")
        if not key.exists():
            builder.add("site", f"make the key that signs images: {key.name}")
        builder.add_all(verb.named("storage"), [f"image store {verb.site.settings.images.store}, for root alone"])
        builder.add_all(
            verb.named("gpu"),
            ["check the disk layout; where it is fit: boot units, health checks, identity in the state"],
        )
        given = variables(verb.site)

        def write() -> None:
            signing_key(verb.site, make=True)
            given.update(variables(verb.site))

        def result(run: RunResult) -> dict[str, Any]:
            return {"layout": {name: host.reports.get("layout") for name, host in run.hosts.items() if host.reports}}

        ctx.exit(
            perform(
                verb,
                Work(
                    plan=builder.build(),
                    variables=given,
                    write=write,
                    result=result,
                ),
            )
        )

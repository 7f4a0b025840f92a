"""gpuadmin clear-leftovers"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options

if TYPE_CHECKING:
    from gpuadmin.run import RunResult


@click.command("clear-leftovers")
@run_options()
@click.pass_context
def command(ctx: click.Context, options: Options) -> None:
    """Pack what a wipe left because its backup lacks it into archives on the storage host, and only then delete it.

    A file that was changed after the backup is never wiped: it stays out of sight, and every backup and reset says so.
    """
    from pathlib import PurePosixPath

    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.plan import PlanBuilder

    with opened("clear-leftovers", options) as verb:
        archive = PurePosixPath(verb.site.settings.homes.export).parent / "archive"
        builder = PlanBuilder("Clear what wipes left", destroys=True)
        builder.add_all(storage_of(verb), [f"pack what wipes left into {archive}, compare, and then delete it"])
        ctx.exit(perform(verb, Work(plan=builder.build(), result=_result, observe=True)))


def _result(run: RunResult) -> dict[str, Any]:
    cleared = {name: host.reports["cleared"] for name, host in run.hosts.items() if "cleared" in host.reports}
    return {"cleared": cleared}

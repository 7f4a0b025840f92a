"""gpuadmin verify-image"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say
from gpuadmin.words import one_line

if TYPE_CHECKING:
    from gpuadmin.run import RunResult


@click.command("verify-image")
@click.argument("name")
@run_options(changes=False)
@click.pass_context
def command(ctx: click.Context, name: str, options: Options) -> None:
    """Verify an image in the store: its signature, the sha256 of its streams, and that its chain is complete.

    Exit code 0: all is well; 1: something is not.
    """
    from gpuadmin.cli._images import variables
    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.errors import ExitCode
    from gpuadmin.images import check_name
    from gpuadmin.plan import PlanBuilder

    with opened("verify-image", options, changes=False) as verb:
        builder = PlanBuilder(f"Verify the image {check_name(name)}")
        builder.add_all(storage_of(verb), ["verify it in the store"])
        problems: list[str] = []
        seen: list[str] = []

        def result(run: RunResult) -> dict[str, Any]:
            for host in run.hosts.values():
                if "verified" in host.reports:
                    seen.append(name)
                    problems.extend(host.reports["verified"].get(name, ["the store did not say anything of it"]))
            return {"problems": problems}

        work = Work(
            plan=builder.build(),
            variables=variables(verb.site, gpuadmin_verify_images=[name]),
            result=result,
            check_only=True,
            show_table=False,
        )
        code = perform(verb, work)
        if not options.json and seen:
            for problem in problems:
                say(one_line(f"{name}: {problem}"))
            if not problems:
                say(f"{name}: signature, digests and chain are right")
        ctx.exit(ExitCode.ERROR if problems and code == ExitCode.DONE else code)

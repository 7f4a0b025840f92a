"""gpuadmin drift"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say
from gpuadmin.words import counted

if TYPE_CHECKING:
    from gpuadmin.run import RunResult


@click.command("drift")
@run_options(changes=False)
@click.pass_context
def command(ctx: click.Context, options: Options) -> None:
    """Report where hosts differ from what the site says. Changes nothing.

    Exit code 0: no difference anywhere; 3: some host differs or failed; 4: some host did not answer.
    """
    from dataclasses import replace

    from gpuadmin.cli._roles import provision_work
    from gpuadmin.cli._verb import opened, perform

    with opened("drift", options, changes=False) as verb:
        work = provision_work(verb, title=f"Compare the hosts of {verb.site.settings.name} with the site")
        code = perform(verb, replace(work, check_only=True, result=_result, exit_code=_exit_code))
    ctx.exit(code)


def _differing(run: RunResult) -> list[str]:
    return [name for name, host in run.hosts.items() if host.changed]


def _result(run: RunResult) -> dict[str, Any]:
    differing = _differing(run)
    if differing:
        count = counted(len(differing), "host differs", "hosts differ")
        say(f"{count}: {', '.join(differing)}", err=True)
    return {"differing": differing}


def _exit_code(run: RunResult) -> int:
    from gpuadmin.errors import ExitCode
    from gpuadmin.report import exit_code

    code = exit_code(run)
    return ExitCode.HOST_FAILED if _differing(run) and code in (ExitCode.DONE, ExitCode.HOST_UNREACHABLE) else code

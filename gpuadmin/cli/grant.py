"""gpuadmin grant"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import hosts, people
from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("grant")
@click.argument("name", metavar="NAME", shell_complete=people())
@click.argument("host", metavar="HOST", shell_complete=hosts())
@click.option(
    "--gpus", "number", type=WholeNumber(min=1, max=64), help="So many GPUs that nobody was granted.  [default: 1]"
)
@click.option(
    "--gpu", "ids", multiple=True, metavar="ID", help="This GPU: its place (0, 1, …) or UUID. Several are possible."
)
@click.option("--mig", metavar="PROFILE", help="A MIG device of this profile (1g.10gb) that nobody was granted.")
@click.option("--hours", type=WholeNumber(min=1, max=24 * 366), help="For so long.")
@click.option("--until", metavar="TIME", help="Until then: tonight, HH:MM, YYYY-MM-DD or YYYY-MM-DDTHH:MM.")
@click.option("--reason", metavar="TEXT", default="", help="Why; everybody can read it.")
@run_options(limit=False)
def command(
    name: str,
    host: str,
    number: int | None,
    ids: tuple[str, ...],
    mig: str | None,
    hours: int | None,
    until: str | None,
    reason: str,
    options: Options,
) -> int:
    """Give somebody GPUs of a node until a time, where the site's GPUs are granted (gpus.access).

    Their ssh sessions, running containers and next containers can open them at once, and nobody else's can. The
    node takes them back by itself.

    \b
    gpuadmin grant minji gpu1 --gpus 2 --hours 8
    gpuadmin grant minji gpu1 --gpu 0 --until tonight --reason 'paper deadline'
    gpuadmin grant minji gpu1 --mig 1g.10gb --hours 4
    """
    from gpuadmin.actions.grant import Granting, grant

    if sum((number is not None, bool(ids), bool(mig))) > 1:
        raise click.UsageError("--gpus says how many, --gpu says which, --mig a profile: give one of them")
    if (hours is None) == (until is None):
        raise click.UsageError("say until when: --hours or --until")
    return grant(
        options, Granting(name, host, number or (0 if ids or mig else 1), ids, hours, until, reason, mig or "")
    )

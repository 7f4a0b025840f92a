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
    "--gpus", "number", type=WholeNumber(min=1, max=64), help="How many GPUs; the node chooses.  [default: 1]"
)
@click.option(
    "--gpu", "ids", multiple=True, metavar="ID", help="Which GPU: its number (0, 1, …) or UUID. Repeat it for several."
)
@click.option("--mig", metavar="PROFILE", help="A MIG device of this profile, such as 1g.10gb.")
@click.option("--hours", type=WholeNumber(min=1, max=24 * 366), help="For how many hours.")
@click.option("--until", metavar="TIME", help="Until when: tonight, HH:MM, YYYY-MM-DD or YYYY-MM-DDTHH:MM.")
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
    """Grant somebody GPUs of a node until a time, where gpus.access is granted.

    They can open the GPUs at once, in shells and containers that are running and in new ones; nobody else can. The
    node takes the GPUs back by itself. What is granted to somebody else is not granted again.

    On a node of Slurm's queue it is an exception: a job in their name that has no limits and starts before all others.
    It starts now, or the command says who has the GPUs. It needs a --reason.

    \b
    gpuadmin grant minji gpu1 --gpus 2 --hours 8
    gpuadmin grant minji gpu1 --gpu 0 --until tonight --reason 'paper deadline'
    gpuadmin grant minji gpu1 --mig 1g.10gb --hours 4
    """
    from gpuadmin.actions.grant import Granting, grant

    if sum((number is not None, bool(ids), bool(mig))) > 1:
        raise click.UsageError("--gpus says how many, --gpu which, and --mig a profile: give one of them")
    if (hours is None) == (until is None):
        raise click.UsageError("say until when: either --hours or --until")
    return grant(
        options, Granting(name, host, number or (0 if ids or mig else 1), ids, hours, until, reason, mig or "")
    )

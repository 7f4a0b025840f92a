"""gpuadmin free"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("free")
@run_options(changes=False, playbook=False)
@click.option(
    "--gpus", type=WholeNumber(1, 64), default=1, show_default=True, metavar="N", help="How many on one node."
)
@click.option(
    "--memory", type=WholeNumber(0, 10000), default=0, metavar="GIB", help="GiB of memory that each must have left."
)
def command(options: Options, gpus: int, memory: int) -> int:
    """Show the nodes on which somebody can run now: with GPUs or MIG devices that nobody holds.

    What is not known is left out: a GPU is free only where it is known that nobody holds it.
    """
    from gpuadmin.actions.free import free

    return free(options, gpus=gpus, memory=memory)

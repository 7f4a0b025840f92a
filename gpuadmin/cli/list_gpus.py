"""gpuadmin list-gpus"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("list-gpus")
@run_options(changes=False)
def command(options: Options) -> int:
    """Show every GPU of the nodes, how many there are of how many are expected, and what is missing or wrong.

    It changes nothing. Without a driver it shows what the PCI bus has. A driver that does not answer is given up after
    20 seconds.
    """
    from gpuadmin.actions.list_gpus import list_gpus

    return list_gpus(options)

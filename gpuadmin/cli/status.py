"""gpuadmin status"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("status")
@run_options(changes=False)
def command(options: Options) -> int:
    """Show the whole cluster on one screen: hosts, GPUs, people, disks, images, the newest backup, what is left to do.

    It changes nothing. A host that does not answer is a row that says so; what is not known is called unknown.
    """
    from gpuadmin.actions.status import status

    return status(options)

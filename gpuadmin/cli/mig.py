"""gpuadmin mig"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import pattern
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("mig")
@click.argument("hosts", metavar="[HOST...]", nargs=-1, shell_complete=pattern())
@click.option("--when-idle", is_flag=True, help="Wait until nobody holds a GPU or was granted it, for a day at most.")
@run_options()
def command(hosts: tuple[str, ...], when_idle: bool, options: Options) -> int:
    """Divide GPUs into MIG devices as gpus.mig says, and make whole again what it does not name.

    Only GPUs that nobody holds or was granted are divided; the plan names the people who keep the others. With
    --when-idle they are told, and each GPU is divided as soon as it is free. Nodes make the devices again after a boot.

    \b
    gpuadmin mig --check
    gpuadmin mig gpu1 --when-idle
    """
    from gpuadmin.actions.mig import divide

    return divide(options, hosts, when_idle=when_idle)

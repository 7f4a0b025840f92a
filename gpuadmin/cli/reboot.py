"""gpuadmin reboot"""

from __future__ import annotations

import click

from gpuadmin.cli._options import power_options, run_options
from gpuadmin.options import Options


@click.command("reboot")
@power_options
@run_options()
def command(hosts: tuple[str, ...], when_idle: bool, at: str | None, force: bool, options: Options) -> int:
    """Reboot hosts, and wait until they are back. People are told first.

    A node with people on it is left out, unless you say how long they get. With a storage host among them: the nodes
    unmount the homes, the storage host reboots when nobody mounts it, and then the nodes do.

    \b
    gpuadmin reboot gpu3 --when-idle
    gpuadmin reboot all --at 02:00
    """
    from gpuadmin.actions.reboot import reboot

    return reboot(options, hosts, when_idle=when_idle, at=at, force=force)

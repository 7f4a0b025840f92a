"""gpuadmin shutdown"""

from __future__ import annotations

import click

from gpuadmin.cli._options import power_options, run_options
from gpuadmin.options import Options


@click.command("shutdown")
@power_options
@run_options()
def command(hosts: tuple[str, ...], when_idle: bool, at: str | None, force: bool, options: Options) -> int:
    """Switch hosts off: nodes first, and storage only when nobody mounts it. People are told first.

    A node with people on it is left out, unless you say how long they get. Nothing here switches hosts on again: begin
    with the storage host then.

    \b
    gpuadmin shutdown all --at 17:30        # the day the building loses power
    gpuadmin shutdown gpu3 --when-idle
    """
    from gpuadmin.actions.shutdown import shutdown

    return shutdown(options, hosts, when_idle=when_idle, at=at, force=force)

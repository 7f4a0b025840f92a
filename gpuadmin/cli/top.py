"""gpuadmin top"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import WholeNumber, require_no_passwords, run_options
from gpuadmin.options import Options


@click.command("top")
@run_options(changes=False)
@click.option("--once", is_flag=True, help="Show it once and leave; the default without a terminal and with --json.")
@click.option("--user", metavar="NAME", shell_complete=people(), help="Only what this person holds.")
@click.option("--local", is_flag=True, help="Ask the nodes themselves, once; also while the monitor host is away.")
@click.option("--every", type=WholeNumber(1, 3600), default=5, show_default=True, metavar="SECONDS", help="How often.")
def command(options: Options, once: bool, user: str | None, local: bool, every: int) -> int:
    """Show what every GPU of the cluster does now, who holds it, in which container and since when. q ends it.

    It asks Prometheus on the monitor host, or with --local every node, and changes nothing. A node that is down, or of
    which nothing is known, is a row that says so: what is unknown is never shown as free.
    """
    from gpuadmin.actions.top import top

    if not local:
        require_no_passwords(options, "--local")
    return top(options, once=once, user=user, local=local, every=every)

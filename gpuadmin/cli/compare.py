"""gpuadmin compare"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import pattern
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("compare")
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option(
    "--section", "sections", multiple=True, metavar="SECTION",
    help="Only this section (ssh, kernel, packages, …), and all of it; may be given several times.",
)  # fmt: skip
@run_options(changes=False)
def command(hosts: tuple[str, ...], sections: tuple[str, ...], options: Options) -> int:
    """Find the host that is not like the others: ssh, kernel, packages, mounts, units, firewall, firmware, and more.

    What most hosts have is usual, and whoever has something else is named. Hosts of one group are compared with each
    other where groups differ. Names, addresses and identifiers of a host are left out. It changes nothing.

    \b
    gpuadmin compare                            # ssh times out only on server x: why?
    gpuadmin compare gpu1 gpu2                  # of two, none is the odd one
    gpuadmin compare --section packages

    Exit code 0: no difference; 6: some host differs; 3: some host failed, or a section could not be read; 4: some host
    did not answer.
    """
    from gpuadmin.actions.compare import compare_hosts

    return compare_hosts(options, hosts, sections)

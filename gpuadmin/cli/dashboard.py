"""gpuadmin dashboard"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("dashboard")
@run_options(
    changes=False, check="Only look whether it answers, and with which certificate.", limit=False, playbook=False
)
@click.option("--open", "browser", is_flag=True, help="Open it in this machine's browser, too.")
@click.option(
    "--port",
    type=WholeNumber(1024, 65535),
    metavar="PORT",
    help="On this machine.  [default: the dashboard's own, or a free one]",
)
def command(options: Options, browser: bool, port: int | None) -> int:
    """Open the cluster's web page as an admin: through ssh, with a link that works once. Ctrl-C ends it.

    The dashboard's port need not be open to anybody for this. With --check no link is made. People have gpuadmin-me web
    on nodes.
    """
    from gpuadmin.actions.dashboard import dashboard

    return dashboard(options, browser=browser, port=port)

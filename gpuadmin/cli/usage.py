"""gpuadmin usage"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("usage")
@run_options(changes=False, playbook=False)
@click.option(
    "--since", "days", type=WholeNumber(1, 3650), default=30, show_default=True, metavar="DAYS", help="The last days."
)
@click.option(
    "--by", "kind", type=click.Choice(["user", "account", "node", "group"]), default="user", show_default=True,
    help="A row for each person, account in the queue (slurm.groups), node, or group of nodes of the site's own "
    "inventory.",
)  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, for a spreadsheet.")
@click.option("--html", "page", metavar="FILE", help="Write it as a page with charts, which needs nothing else.")
def command(options: Options, days: int, kind: str, as_csv: bool, page: str | None) -> int:
    """Show how many GPU-hours were held and used: of what was bought, how much was taken, and how much of that
    computed.

    Allocated is what the queue gave to somebody, granted what was theirs alone, by the queue or an admin. Held is a
    GPU that somebody's process has open; used is one on which something ran. Efficiency is used of held,
    where it is known.
    """
    from gpuadmin.actions.usage import show_usage

    if as_csv and options.json:
        raise click.UsageError("--csv and --json: one of them")
    return show_usage(options, days=days, kind=kind, as_csv=as_csv, page=page)

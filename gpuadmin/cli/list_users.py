"""gpuadmin list-users"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("list-users")
@click.option("--offline", is_flag=True, help="Only what users.yml says; ask no host.")
@run_options(changes=False)
def command(offline: bool, options: Options) -> int:
    """Show every account, and where it is missing or differs. Changes nothing."""
    from gpuadmin.actions.list_users import list_users

    return list_users(options, offline=offline)

"""gpuadmin sync-users"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("sync-users")
@run_options()
def command(options: Options) -> int:
    """Make every host what users.yml says: after a node was down, or after you edited users.yml."""
    from gpuadmin.actions.sync_users import sync_users

    return sync_users(options)

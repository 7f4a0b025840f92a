"""gpuadmin sync-users"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("sync-users")
@run_options()
def command(options: Options) -> int:
    """Bring every host to what users.yml says: what heals a node that was down, or after editing by hand."""
    from gpuadmin.actions.sync_users import sync_users

    return sync_users(options)

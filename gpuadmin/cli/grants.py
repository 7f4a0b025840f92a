"""gpuadmin grants"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("grants")
@run_options(changes=False)
def command(options: Options) -> int:
    """Show who was granted which GPUs, until when, by whom and why."""
    from gpuadmin.actions.grants import show_grants

    return show_grants(options)

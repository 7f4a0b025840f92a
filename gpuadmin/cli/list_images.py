"""gpuadmin list-images"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("list-images")
@run_options(changes=False)
def command(options: Options) -> int:
    """Show the images of the store, and what every node runs, holds, will try or has refused. Changes nothing."""
    from gpuadmin.actions.list_images import list_images

    return list_images(options)

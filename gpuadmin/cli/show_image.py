"""gpuadmin show-image"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("show-image")
@click.argument("name")
@run_options(changes=False)
def command(name: str, options: Options) -> int:
    """Show an image: its kernel, its streams, and the packages that differ from its parent's. Changes nothing."""
    from gpuadmin.actions.show_image import show_image

    return show_image(options, name)

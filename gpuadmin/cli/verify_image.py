"""gpuadmin verify-image"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("verify-image")
@click.argument("name")
@run_options(changes=False)
def command(name: str, options: Options) -> int:
    """Verify an image in the store: its signature, the sha256 of its streams, and that its chain is complete.

    Exit code 0: what was verified is right; 1: something is not.
    """
    from gpuadmin.actions.verify_image import verify_image

    return verify_image(options, name)

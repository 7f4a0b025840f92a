"""gpuadmin rollback-image"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("rollback-image")
@click.option("--canary", type=WholeNumber(0), default=1, show_default=True, help="Nodes that go first.")
@click.option("--batch", default="100%", show_default=True, metavar="N|%", help="How many of the others at a time.")
@click.option("--force", is_flag=True, help="Reboot nodes although people are logged in.")
@run_options()
def command(canary: int, batch: str, force: bool, options: Options) -> int:
    """Move nodes back to the root that they had confirmed before the one they run. Accounts and identity stay.

    On a node that is set to try an image at its next boot, that is called off instead."""
    from gpuadmin.actions.rollback_image import rollback_image

    return rollback_image(options, canary=canary, batch=batch, force=force)

"""gpuadmin prune-images"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("prune-images")
@click.option("--keep", type=WholeNumber(1), help="How many of the newest images stay.  [default: images.keep]")
@run_options()
def command(keep: int | None, options: Options) -> int:
    """Delete images and roots that nobody needs, from the store and the nodes.

    Never what runs or boots, the last confirmed root before it, or a parent that a kept image still needs.
    """
    from gpuadmin.actions.prune_images import prune_images

    return prune_images(options, keep)

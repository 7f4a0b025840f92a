"""gpuadmin push-image"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options


@click.command("push-image")
@click.argument("name")
@click.option("--canary", type=WholeNumber(0), default=1, show_default=True, help="Nodes that go first.")
@click.option("--batch", default="100%", show_default=True, metavar="N|%", help="How many of the others at a time.")
@click.option("--no-reboot", is_flag=True, help="Only prepare; the next boot, whenever it comes, tries the image.")
@click.option("--when-idle", is_flag=True, help="Wait with each reboot until nobody is on the node, for a day at most.")
@click.option("--force", is_flag=True, help="Reboot nodes although people or their GPU work are on them.")
@click.option("--full", is_flag=True, help="Fetch the full stream, even where the difference would do.")
@click.option("--deadline", type=WholeNumber(60), help="Seconds that a trial may take.  [default: images.deadline]")
@run_options()
def command(
    name: str,
    canary: int,
    batch: str,
    no_reboot: bool,
    when_idle: bool,
    force: bool,
    full: bool,
    deadline: int | None,
    options: Options,
) -> int:
    """Move nodes to an image: fetch, prove and receive it, boot it on trial, keep it if the health checks pass.

    A node whose trial fails comes back by itself on the root it ran. The first batch with such a node is the last.
    Run it again to go on; it leaves nodes alone that run the image.
    """
    from gpuadmin.actions.push_image import Push, push_image

    if when_idle and force:
        raise click.UsageError("--when-idle waits and --force does not: give one of them")
    push = Push(name, canary, batch, not no_reboot, when_idle, force, full, deadline)
    return push_image(options, push)

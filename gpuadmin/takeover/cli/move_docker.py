"""gpuadmin move-docker"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("move-docker")
@click.argument("user", metavar="[USER]", required=False, shell_complete=people())
@click.option("--container", "containers", metavar="NAME", multiple=True, help="Its image and its named volumes.")
@click.option("--volume", "volumes", metavar="NAME", multiple=True, help="A named volume.")
@click.option("--image", "images", metavar="NAME|ID", multiple=True, help="An image.")
@click.option("--discard", is_flag=True, help="Remove from root's Docker what was carried to USER before.")
@run_options()
def command(
    user: str | None,
    containers: tuple[str, ...],
    volumes: tuple[str, ...],
    images: tuple[str, ...],
    discard: bool,
    options: Options,
) -> int:
    """Carry images and volumes of root's Docker into a person's own, on the same node.

    Without options: lists what root's Docker has on each node, what of it can be carried, and whose it may be. Root's
    Docker does not know that: name it. Nothing of root's Docker changes until --discard, which removes what was carried
    and is still as it was; without names, all that was carried to USER. After a kill or a power cut the same command
    goes on.

    \b
    gpuadmin move-docker
    gpuadmin move-docker minji --container train --volume datasets --limit gpu1
    gpuadmin move-docker minji --discard
    """
    from gpuadmin.takeover.actions.move_docker import discard_docker, list_docker, move_docker

    named = (containers, volumes, images)
    if user is None:
        if discard or any(named):
            raise click.UsageError("say whose it is: gpuadmin move-docker USER …")
        return list_docker(options)
    if discard:
        return discard_docker(options, user, named)
    return move_docker(options, user, named) if any(named) else list_docker(options, user)

"""The verbs of images."""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._options import WholeNumber, run_options
from gpuadmin.options import Options

_CANARY = click.option("--canary", type=WholeNumber(0), default=1, show_default=True, help="Nodes that go first.")
_BATCH = click.option(
    "--batch", default="100%", show_default=True, metavar="N|%", help="How many of the others at a time."
)


@click.command("prepare-root")
@run_options()
def prepare_root(options: Options) -> int:
    """Check the disk layout that images need, and complete it: directories, boot units, health checks, identity.

    A node that boots differently is reported with what would have to change, and is not touched.
    """
    from gpuadmin.actions.prepare_root import prepare_root

    return prepare_root(options)


@click.command("build-image")
@click.argument("name", required=False)
@click.option("--upgrade", is_flag=True, help="Upgrade all packages.")
@click.option("--install", "packages", multiple=True, metavar="PACKAGE", help="Install a package; may be repeated.")
@click.option(
    "--run",
    "playbook",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="PLAYBOOK",
    help="Run a playbook of yours in the new root; its hosts are `golden`.",
)
@click.option("--shell", is_flag=True, help="Open a shell in the new root; the image is built when it ends with 0.")
@click.option("--full", is_flag=True, help="Send the whole image as well, for nodes that hold none of its parents.")
@click.option("--no-trial", is_flag=True, help="Do not boot the golden node into it first.")
@run_options(limit=False)
def build_image(
    name: str | None,
    upgrade: bool,
    packages: tuple[str, ...],
    playbook: Path | None,
    shell: bool,
    full: bool,
    no_trial: bool,
    options: Options,
) -> int:
    """Build an image: a copy of the golden node's root, changed, booted there on trial, sealed, signed and stored.

    The running root is not touched. Without NAME it is named after today. If a build was cut off, run it again.
    With --full, an image that is there already gets its full stream.
    """
    from gpuadmin.actions.build_image import build_image

    if shell and options.json:
        raise click.UsageError("--shell is for people: it does not go with --json")
    return build_image(
        options, name, upgrade=upgrade, packages=packages, playbook=playbook, shell=shell, full=full, trial=not no_trial
    )


@click.command("push-image")
@click.argument("name")
@_CANARY
@_BATCH
@click.option("--no-reboot", is_flag=True, help="Only prepare; the next boot, whenever it comes, tries the image.")
@click.option("--when-idle", is_flag=True, help="Wait with each reboot until nobody is on the node, for a day at most.")
@click.option("--force", is_flag=True, help="Reboot nodes although people or their GPU work are on them.")
@click.option("--full", is_flag=True, help="Fetch the full stream, even where the difference would do.")
@click.option("--deadline", type=WholeNumber(60), help="Seconds that a trial may take.  [default: images.deadline]")
@run_options()
def push_image(
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


@click.command("rollback-image")
@_CANARY
@_BATCH
@click.option("--force", is_flag=True, help="Reboot nodes although people are logged in.")
@run_options()
def rollback_image(canary: int, batch: str, force: bool, options: Options) -> int:
    """Move nodes back to the root that they had confirmed before the one they run. Accounts and identity stay.

    On a node that is set to try an image at its next boot, that is called off instead."""
    from gpuadmin.actions.rollback_image import rollback_image

    return rollback_image(options, canary=canary, batch=batch, force=force)


@click.command("list-images")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--verify", is_flag=True, help="Verify NAME: its signature, the sha256 of its streams, and its chain.")
@run_options(changes=False)
def list_images(name: str | None, verify: bool, options: Options) -> int:
    """Show the images of the store, and what every node runs, holds, will try or has refused. Changes nothing.

    With NAME: that image's kernel, its streams, and the packages that differ from its parent's. With --verify, exit
    code 0: what was verified is right; 1: something is not.
    """
    from gpuadmin.actions import list_images as action

    if name is None:
        if verify:
            raise click.UsageError("--verify: which image? gpuadmin list-images NAME --verify")
        return action.list_images(options)
    return action.verify_image(options, name) if verify else action.show_image(options, name)


@click.command("prune-images")
@click.option("--keep", type=WholeNumber(1), help="How many of the newest images stay.  [default: images.keep]")
@run_options()
def prune_images(keep: int | None, options: Options) -> int:
    """Delete images and roots that nobody needs, from the store and the nodes.

    Never what runs or boots, the last confirmed root before it, or a parent that a kept image still needs.
    """
    from gpuadmin.actions.prune_images import prune_images

    return prune_images(options, keep)

"""gpuadmin build-image"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


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
def command(
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

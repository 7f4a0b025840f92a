"""gpuadmin backup"""

from __future__ import annotations

import re

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("backup")
@click.option("--label", metavar="WORD", default="manual", show_default=True, help="A word for the backup's name.")
@click.option("--verify/--no-verify", default=True, help="Read every home a second time and compare. [default: yes]")
@run_options()
def command(label: str, verify: bool, options: Options) -> int:
    """Back the homes up now: a read-only snapshot, a manifest of every home, and the second copy if there is a host."""
    from gpuadmin.actions.backup import backup

    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?", label) or label == "daily":
        raise click.BadParameter(
            "use small letters, digits, '.' and '-'; 'daily' is the timer's", param_hint="--label"
        )  # fmt: skip
    return backup(options, label=label, verify=verify)

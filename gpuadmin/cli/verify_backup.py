"""gpuadmin verify-backup"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("verify-backup")
@click.argument("name", metavar="[BACKUP]", required=False)
@click.option(
    "--user",
    "users",
    metavar="USER",
    multiple=True,
    shell_complete=people(removed=True),
    help="Only this home; repeatable. [default: all]",
)
@run_options()
def command(name: str | None, users: tuple[str, ...], options: Options) -> int:
    """Read a backup of the storage host (the newest, if none is named) and compare every file with the manifest."""
    from gpuadmin.actions.verify_backup import verify_backup

    return verify_backup(options, name, users)

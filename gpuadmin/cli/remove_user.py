"""gpuadmin remove-user"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("remove-user")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--archive-home",
    is_flag=True,
    help="Move each home to the attic on the storage host, where root alone can enter.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Free the uids of people who were removed. Nothing of theirs may be left, not even in a backup.",
)
@run_options()
def command(names: tuple[str, ...], archive_home: bool, forget: bool, options: Options) -> int:
    """Lock and remove accounts everywhere. Homes and Docker data stay, unless --archive-home.

    The uid is kept out of use in users.yml, because files on disks and in backups still carry it.
    """
    from gpuadmin.actions.remove_user import forget_user, remove_user

    if forget and archive_home:
        raise click.UsageError("--forget is for people whose home is gone: leave --archive-home out")
    if forget:
        return forget_user(options, names)
    return remove_user(options, names, archive_home=archive_home)

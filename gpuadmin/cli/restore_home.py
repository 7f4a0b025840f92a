"""gpuadmin restore-home"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("restore-home")
@click.argument("user", metavar="USER", shell_complete=people(removed=True))
@click.option("--from", "backup", metavar="BACKUP", help="Which backup. [default: the newest that was verified]")
@click.option("--path", metavar="SUB", default="", help="Only this part of the home.")
@click.option("--to", "target", metavar="DIR", help="A directory on the storage host that is not there yet.")
@click.option("--in-place", is_flag=True, help="To where it was; what is there now is kept beside it.")
@run_options()
def command(
    user: str,
    backup: str | None,
    path: str,
    target: str | None,
    in_place: bool,
    options: Options,
) -> int:
    """Bring a home, or a part of it, back from a backup: beside the home, never over it.

    Owners and modes are kept, and the copy is compared with the backup. For somebody who has no account
    it goes to the attic on the storage host, where root alone can enter.
    """
    from gpuadmin.actions.restore_home import restore_home

    if target and in_place:
        raise click.UsageError("--to and --in-place exclude each other")
    return restore_home(options, user, backup=backup, path=path, target=target, in_place=in_place)

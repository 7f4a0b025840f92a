"""gpuadmin restore-queue"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("restore-queue")
@click.option("--from", "backup", metavar="BACKUP", help="Which backup. [default: the newest that was verified]")
@run_options(limit=False)
def command(backup: str | None, options: Options) -> int:
    """Bring the queue's accounting back from a backup: who has used what, shares and limits.

    It is compared with the backup before it is used. The database that it replaces is kept beside it.
    """
    from gpuadmin.actions.restore_queue import restore_queue

    return restore_queue(options, backup)

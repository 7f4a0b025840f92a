"""gpuadmin clear-leftovers"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("clear-leftovers")
@run_options()
def command(options: Options) -> int:
    """Move what a wipe left because its backup lacks it to the attic on the storage host, where root alone can enter.

    A file that was changed after the backup is never wiped: it stays out of sight, and every backup and reset says so.
    """
    from gpuadmin.actions.clear_leftovers import clear_leftovers

    return clear_leftovers(options)

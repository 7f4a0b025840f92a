"""gpuadmin prepare-root"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("prepare-root")
@run_options()
def command(options: Options) -> int:
    """Check the disk layout that images need, and complete it: directories, boot units, health checks, identity.

    A node that boots differently is reported with what would have to change, and is not touched.
    """
    from gpuadmin.actions.prepare_root import prepare_root

    return prepare_root(options)

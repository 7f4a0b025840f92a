"""gpuadmin provision"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("provision")
@run_options()
def command(options: Options) -> int:
    """Set nodes and the storage host up: all roles that a host's groups call for, and the accounts."""
    from gpuadmin.actions.provision import provision

    return provision(options)

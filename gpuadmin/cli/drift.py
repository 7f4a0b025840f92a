"""gpuadmin drift"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("drift")
@run_options(changes=False)
def command(options: Options) -> int:
    """Report where hosts differ from what the site says. Changes nothing.

    First comes who is root there, or could be, beside root and the admin account; then what is not as packages and
    distributions set it up; then what `gpuadmin provision` would change.

    Exit code 0: no difference anywhere; 6: some host differs; 3: some host failed; 4: some host did not answer.
    """
    from gpuadmin.actions.drift import drift

    return drift(options)

"""gpuadmin extend-term"""

from __future__ import annotations

from datetime import date

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import as_day, run_options
from gpuadmin.options import Options


@click.command("extend-term")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--until",
    metavar="DATE",
    callback=as_day,
    help="Last day of validity, YYYY-MM-DD. [default: the end of the next term, term.next]",
)
@run_options()
def command(names: tuple[str, ...], until: date | None, options: Options) -> int:
    """Let people stay for the next term: the reset of the running one leaves them alone.

    users.yml remembers it (`stays`), and their accounts become valid for longer. They get no more reminders.
    """
    from gpuadmin.actions.extend_term import extend_term

    return extend_term(options, names, until)

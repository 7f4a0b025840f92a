"""gpuadmin semester-reset"""

from __future__ import annotations

from typing import Any

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import WholeNumber, mail_options, run_options
from gpuadmin.options import MailOptions, Options
from gpuadmin.semester.machine import PHASES


@click.command("semester-reset")
@click.option("--term", metavar="NAME", help="The term's name; together with --yes it confirms the wipe.")
@click.option("--phase", type=click.Choice(PHASES), help="Only this phase; those before it must be done.")
@click.option(
    "--keep",
    metavar="USER",
    multiple=True,
    shell_complete=people(),
    help="Somebody who stays this time; repeatable.",
)
@click.option("--resume", is_flag=True, help="Go on with the reset that was begun.")
@click.option(
    "--abort", is_flag=True, help="Take back what was begun, before anything was wiped: people can log in again."
)
@click.option(
    "--leave-pending", is_flag=True, help="Go on although a host is away or failed; what it holds stays pending."
)
@click.option("--early", is_flag=True, help="Lock and wipe before the term's last day; --resume keeps to it.")
@click.option(
    "--grace", type=WholeNumber(0, 86400), metavar="SECONDS", help="Time to save work. [default: reset.grace]"
)
@mail_options
@run_options()
def command(mail: MailOptions, options: Options, **given: Any) -> int:
    """End the term: tell people, lock, end sessions, back up and verify, wipe, prune, and reopen.

    Each phase is shown, asked for and written to a journal in runs/; whatever interrupts it, --resume goes on.
    It wipes what a verified backup has, and Docker data and scratch, which no backup has; the plan names them.

    \b
    gpuadmin semester-reset --check       # who leaves, who stays, what would be wiped
    gpuadmin semester-reset               # every phase, one question each
    gpuadmin extend-term minji            # minji stays, also in a reset that was begun
    """
    from gpuadmin.actions.semester_reset import semester_reset

    if given["resume"] and given["abort"]:
        raise click.UsageError("--resume and --abort exclude each other")
    return semester_reset(options, mail, **given)

"""gpuadmin notify"""

from __future__ import annotations

import click

from gpuadmin.cli._options import json_option, mail_options, site_option
from gpuadmin.options import MailOptions, Options


@click.command("notify")
@mail_options
@site_option
@json_option
@click.option("--check", is_flag=True, help="Show who would be mailed; send nothing.")
@click.option("--install-timer", is_flag=True, help="Run this every morning from now on, on this machine, as you.")
@click.option("--remove-timer", is_flag=True, help="Remove that timer.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def command(
    mail: MailOptions,
    site: str | None,
    as_json: bool,
    check: bool,
    install_timer: bool,
    remove_timer: bool,
    yes: bool,
) -> int:
    """Mail the reminders that are due: the term ends, or an account does. Run it every day; nobody is mailed twice.

    term.reminders in gpuadmin.yml says how many days before. After missed days one mail goes out, the most urgent.
    People who stay for the next term (extend-term) get none.

    \b
    gpuadmin notify --preview             # every mail in full
    gpuadmin notify --install-timer       # from now on, every morning
    """
    from gpuadmin.actions.notify import notify, notify_timer

    if install_timer and remove_timer:
        raise click.UsageError("--install-timer and --remove-timer: one of the two")
    options = Options(site=site, check=check, yes=yes, json=as_json)
    if install_timer or remove_timer:
        if mail != MailOptions() or as_json:
            raise click.UsageError("a timer is for notify alone: leave --preview, --mail-dir, --again and --json out")
        return notify_timer(options, install=install_timer)
    return notify(options, mail)

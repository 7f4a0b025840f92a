"""gpuadmin idle"""

from __future__ import annotations

import click

from gpuadmin.cli._options import WholeNumber, mail_options, require_no_passwords, run_options
from gpuadmin.options import MailOptions, Options


@click.command("idle")
@click.option(
    "--hours", type=WholeNumber(1, 168), metavar="N", help="Not used for so long.  [default: metrics.idle_hours]"
)
@click.option("--act", is_flag=True, help="Tell them once, and end what the site's policy says; without it only show.")
@mail_options
@run_options()
def command(options: Options, mail: MailOptions, hours: int | None, act: bool) -> int:
    """Show who holds a GPU and has not used it once for hours, and what the site's policy says of it.

    With --act they are told, by mail and on their terminals. Where metrics.idle_stop says so, what they were told of is
    ended after metrics.idle_notice_hours, if it was not used in all that time. Where gpus.access is granted, the same
    happens to whoever still holds a GPU after their grant, whatever metrics.idle_stop says. Unattended: --act --yes, by
    cron. MIG devices never count as idle: their hours of use are not counted.
    """
    from gpuadmin.actions.idle import act_on_idle, show_idle

    if act and hours is not None:
        raise click.UsageError("--act goes by metrics.idle_hours: leave --hours out")
    if not act and (options.check or options.yes or mail != MailOptions()):
        raise click.UsageError("without --act nothing is told or ended: give it, or leave the other options out")
    if not act:
        require_no_passwords(options, "--act")
    return act_on_idle(options, mail) if act else show_idle(options, hours=hours)

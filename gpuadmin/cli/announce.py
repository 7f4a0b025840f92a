"""gpuadmin announce"""

from __future__ import annotations

from datetime import date

import click

from gpuadmin.cli._complete import pattern
from gpuadmin.cli._options import as_day, mail_options, run_options
from gpuadmin.options import MailOptions, Options


@click.command("announce")
@click.option("--ko", metavar="TEXT|@FILE", help="The Korean text; its first line is the subject.")
@click.option("--en", metavar="TEXT|@FILE", help="The English text; its first line is the subject.")
@click.option("--from", "begin", metavar="YYYY-MM-DD", callback=as_day, help="First day at login.  [default: today]")
@click.option("--until", metavar="YYYY-MM-DD", callback=as_day, help="Last day at login.")
@click.option(
    "--on", metavar="PATTERN", shell_complete=pattern(),
    help="At login of these nodes alone, and mail only to those who are on them now.",
)  # fmt: skip
@click.option("--no-mail", is_flag=True, help="Only at login.")
@click.option("--list", "show", is_flag=True, help="Show what is and was announced.")
@click.option("--take-back", "back", metavar="ID", help="Take one back from logins; mails stay sent.")
@mail_options
@run_options()
def command(
    ko: str | None,
    en: str | None,
    begin: date | None,
    until: date | None,
    on: str | None,
    no_mail: bool,
    show: bool,
    back: str | None,
    mail: MailOptions,
    options: Options,
) -> int:
    """Tell people something: a mail once each, now, and a message at login until it is over.

    The same command again is the same announcement: it reaches hosts that were away, and mails nobody twice.

    \b
    gpuadmin announce --ko @power.ko.txt --en @power.en.txt --until 2026-11-28 --preview
    gpuadmin announce --ko '점검: 오늘 18시' --en 'Maintenance: today 18:00' --until 2026-11-23 --on gpu3
    gpuadmin announce --take-back 1f2e3d4c
    """
    from gpuadmin.actions.announce import Announcing, announce, list_announcements, take_back

    texts = {"ko": ko, "en": en}
    if sum((show, back is not None, ko is not None or en is not None)) != 1:
        raise click.UsageError("give the texts (--ko, --en), or --list, or --take-back ID")
    if (show or back is not None) and (begin or until or on or no_mail or mail != MailOptions()):
        raise click.UsageError("--list and --take-back mail nobody and take no days or nodes: leave those options out")
    if show and (options.limit or options.ask_pass or options.ask_become_pass):
        raise click.UsageError("--list asks no host: leave --limit and the passwords out")
    if show:
        return list_announcements(options)
    if back is not None:
        return take_back(options, back)
    if until is None:
        raise click.UsageError("--until is missing: the last day on which people read it at login")
    return announce(options, mail, Announcing(texts, begin, until, on, not no_mail))

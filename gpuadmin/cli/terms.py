"""The verbs of terms: applications, reminders, and the end of one."""

from __future__ import annotations

from datetime import date
from typing import Any

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import WholeNumber, as_day, json_option, mail_options, page_options, run_options, site_option
from gpuadmin.options import MailOptions, Options
from gpuadmin.semester.machine import PHASES


@click.command("call-for-applications")
@click.option("--survey", is_flag=True, help="The questions for the form, for you, in place of the call.")
@click.option("--next", "coming", is_flag=True, help="For the term after this one (term.next).")
@click.option("--until", metavar="YYYY-MM-DD", callback=as_day, help="The last day to apply.")
@click.option("--members", metavar="ADDRESS", help="Where people apply for the group, if they have to.")
@page_options
@site_option
@json_option
def call_for_applications(
    survey: bool,
    coming: bool,
    until: date | None,
    members: str | None,
    language: str | None,
    output: str | None,
    site: str | None,
    as_json: bool,
) -> int:
    """Write the call for a term's accounts: nodes, GPUs, dates, how to apply, terms of use; or the survey's questions.

    The survey's questions have the titles that import-applications looks for. A file of the same name in the site's
    templates/call/ takes a template's place: terms.ko.md.j2 and terms.en.md.j2 are the terms of use.

    \b
    gpuadmin call-for-applications --next --until 2027-01-15 --output public/
    gpuadmin call-for-applications --survey --language ko
    """
    from gpuadmin.actions.call_for_applications import call_for_applications

    return call_for_applications(
        site, language=language, output=output, coming=coming, until=until, members=members, survey=survey,
        as_json=as_json,
    )  # fmt: skip


@click.command("import-applications")
@click.argument("form", metavar="FORM.csv", type=click.Path(dir_okay=False))
@click.option("--members", metavar="GROUP.csv", type=click.Path(dir_okay=False), help="The group's list of applicants.")
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="KEY=TITLE",
    help="Which column is what: time, name, student_id, email, user_name, key, docker, terms, members.name, "
    "members.student_id, members.email; repeatable. [default: applications in gpuadmin.yml, or the usual titles]",
)
@click.option(
    "--name", "chosen", multiple=True, metavar="ADDRESS=NAME", help="The login name of an applicant; repeatable."
)
@click.option("--apply", "do", is_flag=True, help="Add those who are ready, and mail them and the incomplete ones.")
@click.option("--tell-unknown", is_flag=True, help="With --apply: also mail those who are not in the group's list.")
@click.option(
    "--since-last", is_flag=True, help="Show only what is new since the last --apply; who was removed stays removed."
)
@mail_options
@run_options()
def import_applications(
    form: str,
    members: str | None,
    mapped: tuple[str, ...],
    chosen: tuple[str, ...],
    do: bool,
    tell_unknown: bool,
    since_last: bool,
    mail: MailOptions,
    options: Options,
) -> int:
    """Read a survey's export, match it with the group's applications, and give an account to those who are ready.

    Without --apply: three lists, and nothing is changed. Ready; incomplete, with what is missing; unknown, for you to
    look at.

    \b
    gpuadmin import-applications answers.csv --members group.csv
    gpuadmin import-applications answers.csv --members group.csv --preview
    gpuadmin import-applications answers.csv --members group.csv --apply
    gpuadmin import-applications answers.csv --members group.csv --apply --since-last    # every evening
    """
    from gpuadmin.actions.import_applications import import_applications

    if tell_unknown and not members:
        raise click.UsageError("--tell-unknown needs --members: nobody is unknown without that list")
    return import_applications(
        options, mail, form, members, mapped=mapped, chosen=chosen, do=do, tell_unknown=tell_unknown,
        since_last=since_last,
    )  # fmt: skip


@click.command("notify")
@mail_options
@site_option
@json_option
@click.option("--check", is_flag=True, help="Show who would be mailed; send nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def notify(
    mail: MailOptions,
    site: str | None,
    as_json: bool,
    check: bool,
    yes: bool,
) -> int:
    """Mail the reminders that are due: the term ends, or an account does. Run it every day; nobody is mailed twice.

    term.reminders in gpuadmin.yml says how many days before. After missed days one mail goes out, the most urgent.
    People who stay for the next term (extend-term) get none.

    \b
    gpuadmin notify --preview             # every mail in full
    """
    from gpuadmin.actions.notify import notify

    options = Options(site=site, check=check, yes=yes, json=as_json)
    return notify(options, mail)


@click.command("extend-term")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--until",
    metavar="DATE",
    callback=as_day,
    help="Last day of validity, YYYY-MM-DD. [default: the end of the next term, term.next]",
)
@run_options()
def extend_term(names: tuple[str, ...], until: date | None, options: Options) -> int:
    """Let people stay for the next term: the reset of the running one leaves them alone.

    users.yml remembers it (`stays`), and their accounts become valid for longer. They get no more reminders.
    """
    from gpuadmin.actions.extend_term import extend_term

    return extend_term(options, names, until)


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
def semester_reset(mail: MailOptions, options: Options, **given: Any) -> int:
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

"""gpuadmin import-applications"""

from __future__ import annotations

import click

from gpuadmin.cli._options import mail_options, run_options
from gpuadmin.options import MailOptions, Options


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
def command(
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

"""gpuadmin import-applications"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._mail import MailOptions, mail_options
from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say_document


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
@click.option("--tell-unknown", is_flag=True, help="With --apply: mail those too who are not in the group's list.")
@mail_options
@run_options()
@click.pass_context
def command(
    ctx: click.Context,
    form: str,
    members: str | None,
    mapped: tuple[str, ...],
    chosen: tuple[str, ...],
    do: bool,
    tell_unknown: bool,
    mail: MailOptions,
    options: Options,
) -> None:
    """Read a survey's export, match it with the group's applications, and give those an account who are ready.

    Without --apply: three lists, and nothing is changed. Ready; incomplete, with what is missing; unknown, for you to
    look at.

    \b
    gpuadmin import-applications answers.csv --members group.csv
    gpuadmin import-applications answers.csv --members group.csv --preview
    gpuadmin import-applications answers.csv --members group.csv --apply
    """
    from gpuadmin.applications.matching import sort_applications
    from gpuadmin.applications.read import read_form, read_members, with_map
    from gpuadmin.cli._applications import lists_document, preview, show_lists
    from gpuadmin.cli._applying import apply
    from gpuadmin.cli._verb import opened
    from gpuadmin.errors import ConfigError
    from gpuadmin.report import as_json, document

    if tell_unknown and not members:
        raise click.UsageError("--tell-unknown needs --members: without it nobody is unknown for that reason")
    names = dict(item.rpartition("=")[::2] for item in chosen)
    for item in chosen:
        if "@" not in item.rpartition("=")[0] or not item.rpartition("=")[2]:
            raise ConfigError(f"--name {item!r}: must be ADDRESS=NAME")
    with opened("import-applications", options, changes=do and not mail.preview) as verb:
        settings, registry = verb.site.settings, verb.site.registry.registry
        rules = with_map(settings.applications, mapped)
        group = read_members(Path(members), rules) if members else None
        lists = sort_applications(read_form(Path(form), rules), group, registry, settings, names)
        if do and not mail.preview:
            show_lists(lists, as_json=options.json)
            ctx.exit(apply(verb, lists, mail, tell_unknown=tell_unknown))
        result = lists_document(lists)
        if not options.json:
            show_lists(lists, as_json=False)
        if mail.preview:
            result |= preview(verb, lists, mail, tell_unknown=tell_unknown)
        if options.json:
            body = document(verb.name, site=verb.site.directory, run=None, check=True, status="ok", result=result)
            say_document(as_json(body))

"""gpuadmin call-for-applications"""

from __future__ import annotations

from datetime import date

import click

from gpuadmin.cli._options import as_day, json_option, page_options, site_option


@click.command("call-for-applications")
@click.option("--survey", is_flag=True, help="The questions for the form, for you, in place of the call.")
@click.option("--next", "coming", is_flag=True, help="For the term after this one (term.next).")
@click.option("--until", metavar="YYYY-MM-DD", callback=as_day, help="The last day to apply.")
@click.option("--members", metavar="ADDRESS", help="Where people apply for the group, if they have to.")
@page_options
@site_option
@json_option
def command(
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

"""Write a term's call for applications. Asks no host and changes nothing but the files that were asked for."""

from __future__ import annotations

from datetime import date

from gpuadmin.actions.shared.pages import find_gpus, give, languages
from gpuadmin.config.load import load_site
from gpuadmin.config.login import list_login_nodes
from gpuadmin.console import echo
from gpuadmin.pages.call import NAME, SURVEY, call, make_call


def call_for_applications(
    site: str | None,
    *,
    language: str | None,
    output: str | None,
    coming: bool,
    until: date | None,
    members: str | None,
    survey: bool,
    as_json: bool,
) -> int:
    """Print the call, or with `survey` the form's questions; or write them into a directory. Returns the exit code."""
    found = load_site(site)
    nodes = list_login_nodes(found.settings, found.inventory.group("gpu"))
    given = make_call(found.settings, date.today(), coming=coming, until=until, members=members)
    gpus = () if survey else find_gpus(found, say=True)
    if not survey and found.settings.applications.form is None:
        echo(
            "Note: the call does not say where the survey is: applications.form in gpuadmin.yml, then this again",
            err=True,
        )

    def write(wanted: str) -> str:
        return call(wanted, found.settings, nodes, given, gpus=gpus, site=found.directory, survey=survey)

    name = SURVEY if survey else NAME
    return give(NAME, "call", languages(found, language), write, output, name=name, as_json=as_json)

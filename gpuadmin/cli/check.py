"""gpuadmin check"""

from __future__ import annotations

import click

from gpuadmin.cli._options import json_option, site_option
from gpuadmin.console import say, say_document
from gpuadmin.words import counted


@click.command("check")
@site_option
@json_option
@click.pass_context
def command(ctx: click.Context, site: str | None, as_json: bool) -> None:
    """Check a site for mistakes: schema, inventory, duplicate names, ids and keys, dates. Asks no host."""
    from dataclasses import asdict

    from gpuadmin.config.check import findings
    from gpuadmin.config.load import load_site
    from gpuadmin.errors import ExitCode
    from gpuadmin.report import as_json as to_json
    from gpuadmin.report import document

    loaded = load_site(site)
    found = findings(loaded)
    errors = [finding for finding in found if finding.level == "error"]
    if as_json:
        body = document(
            "check",
            site=loaded.directory,
            run=None,
            check=True,
            status="failed" if errors else "ok",
            result={"findings": [asdict(finding) for finding in found]},
        )
        say_document(to_json(body))
    else:
        for finding in found:
            colour = "red" if finding.level == "error" else "yellow"
            say(f"{finding.level}: {finding.where}: {finding.message}\n    {finding.hint}", colour=colour)
        people, hosts = len(loaded.registry.registry.users), len(loaded.inventory.hosts)
        warnings = len(found) - len(errors)
        counts = (
            counted(hosts, "host"), counted(people, "person", "people"), counted(len(errors), "error"),
            counted(warnings, "warning"),
        )  # fmt: skip
        say(f"{loaded.directory}: {', '.join(counts)}")
    if errors:
        ctx.exit(ExitCode.USAGE)

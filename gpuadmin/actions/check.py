"""Check a site for mistakes. Asks no host."""

from __future__ import annotations

from dataclasses import asdict

from gpuadmin.config.check import findings
from gpuadmin.config.load import load_site
from gpuadmin.console import echo, echo_document
from gpuadmin.errors import ExitCode
from gpuadmin.jsontext import json_text
from gpuadmin.report import document
from gpuadmin.text import counted


def check(site: str | None, *, as_json: bool) -> int:
    """Show what is wrong with a site. Returns the exit code."""
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
        echo_document(json_text(body))
    else:
        for finding in found:
            colour = "red" if finding.level == "error" else "yellow"
            echo(f"{finding.level}: {finding.where}: {finding.message}\n    {finding.hint}", colour=colour)
        people, hosts = len(loaded.registry.registry.users), len(loaded.inventory.hosts)
        warnings = len(found) - len(errors)
        counts = (
            counted(hosts, "host"), counted(people, "person", "people"), counted(len(errors), "error"),
            counted(warnings, "warning"),
        )  # fmt: skip
        echo(f"{loaded.directory}: {', '.join(counts)}")
    return ExitCode.USAGE if errors else ExitCode.DONE

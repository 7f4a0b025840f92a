"""Check a site for mistakes. Asks no host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from gpuadmin.common.text import counted
from gpuadmin.config.check import findings, findings_of_parts
from gpuadmin.config.find import find_site
from gpuadmin.config.finding import Finding
from gpuadmin.config.load import load_parts
from gpuadmin.config.memory import recall
from gpuadmin.config.slips import variable_slips
from gpuadmin.console import echo, echo_document
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables
from gpuadmin.errors import ConfigError, ExitCode, together
from gpuadmin.jsontext import json_text
from gpuadmin.mail.examples import template_mistakes
from gpuadmin.report import document


def check(site: str | None, *, as_json: bool) -> int:
    """Show what is wrong with a site. Returns the exit code; raises ConfigError if a file of it cannot be read."""
    parts = load_parts(find_site(site))
    unread = list(parts.mistakes)
    try:
        recall(parts.directory)
    except ConfigError as error:
        unread.append(error)
    loaded = None if unread else parts.site()
    if loaded is None:
        found = findings_of_parts(parts)
    else:
        cluster = Cluster(loaded.settings, loaded.inventory.hosts)
        given = {name for host in cluster.hosts for name in variables(cluster, host)}
        found = [
            *findings(loaded), *variable_slips(loaded.inventory.directory, given),
            *_unread(template_mistakes(loaded.settings, loaded.directory)),
        ]  # fmt: skip
    errors = len(unread) + sum(finding.level == "error" for finding in found)
    if as_json:
        body = document(
            "check",
            site=parts.directory,
            run=None,
            check=True,
            status="failed" if errors else "ok",
            result={"findings": [asdict(finding) for finding in (*_unread(unread), *found)]},
        )
        echo_document(json_text(body))
        return ExitCode.USAGE if errors else ExitCode.DONE
    for finding in found:
        colour = "red" if finding.level == "error" else "yellow"
        echo(f"{finding.level}: {finding.where}: {finding.message}\n    {finding.hint}", colour=colour)
    if loaded is None:
        raise together(unread)
    people, hosts = len(loaded.registry.registry.users), len(loaded.inventory.hosts)
    counts = (
        counted(hosts, "host"), counted(people, "person", "people"), counted(errors, "error"),
        counted(len(found) - errors, "warning"),
    )  # fmt: skip
    echo(f"{loaded.directory}: {', '.join(counts)}")
    return ExitCode.USAGE if errors else ExitCode.DONE


def _unread(errors: Sequence[ConfigError]) -> list[Finding]:
    """What cannot be read or rendered, a finding for each line of it."""
    return [
        Finding("error", line.strip().partition(": ")[0], line.strip().partition(": ")[2], error.hint or "")
        for error in errors
        for line in error.message.splitlines()
    ]

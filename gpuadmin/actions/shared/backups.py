"""What the verbs about backups share."""

from __future__ import annotations

from typing import Any

from gpuadmin.results import RunResult


def backup_result(run: RunResult) -> dict[str, Any]:
    """The backup as the storage host describes it afterwards, and what is not in it."""
    found: dict[str, Any] = {}
    for host in run.hosts.values():
        if host.reports.get("backup"):
            found["backup"] = host.reports["backup"]
    problems = {name: problem for name, problem in run.reported("problems").items() if problem}
    return {**found, "problems": problems}

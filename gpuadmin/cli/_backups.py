"""What the verbs about backups share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuadmin.run import RunResult


def backup_result(run: RunResult) -> dict[str, Any]:
    """The backup as the storage host describes it afterwards, and what is not in it."""
    found: dict[str, Any] = {}
    for host in run.hosts.values():
        if host.reports.get("backup"):
            found["backup"] = host.reports["backup"]
    problems = {name: host.reports["problems"] for name, host in run.hosts.items() if host.reports.get("problems")}
    return {**found, "problems": problems}

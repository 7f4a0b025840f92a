"""Show the queue for GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.actions.shared.grants import clock
from gpuadmin.actions.shared.now import plain_table
from gpuadmin.answers import Answers
from gpuadmin.display import make_console
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def show_queue(options: Options) -> int:
    """Ask Slurm's controller once. Returns the exit code."""
    with opened("queue", options, changes=False) as session:
        hosts = [host.name for host in session.site.inventory.group("slurm")]
        if session.site.settings.slurm is None or not hosts:
            raise ConfigError(
                "this site has no queue: gpuadmin.yml has no section slurm, or no host is in the group slurm",
                hint="docs/slurm.md says how one is set up",
            )
        if not session.check:
            builder = PlanBuilder("Show the queue")
            builder.add_all(hosts, ["ask Slurm's controller who has GPUs, and who waits"])
            session.planned(builder.build())
        run = session.run("queue", hosts, {}, check=True, quiet=True)
        answers = Answers.of(run.hosts, hosts, "queue")
        result = {"hosts": dict(answers.known), "unknown": dict(answers.unknown)}
        return report(session, run, result, show=lambda: _show(answers.known, answers.unknown), unknown=[answers])


def _show(hosts: Mapping[str, Mapping[str, Any]], unknown: Mapping[str, str]) -> None:
    """Print a row for each job; then the nodes that take none."""
    console = make_console(json=False)
    for answer in hosts.values():
        jobs = answer["jobs"]
        rows = [
            (one["id"], one["user"], one["group"], str(one["gpus"]), one["nodes"] or "–", _when(one), one["why"])
            for one in jobs
        ]
        if rows:
            console.print(
                plain_table(("Job", "Person", "Group", "GPUs", "Node", "Until, or place", "Why it waits"), rows)
            )
        else:
            console.print("Nobody has a GPU of the queue, and nobody waits for one.")
        for node in answer["nodes"]:
            if node["reason"]:
                console.print(f"{node['name']} takes no jobs ({node['state']}): {node['reason']}")
    for host, why in unknown.items():
        console.print(f"{host}: unknown: {why}")


def _when(one: Mapping[str, Any]) -> str:
    if one["place"]:
        return f"place {one['place']}, asked {clock(one['asked'])}" if one["asked"] else f"place {one['place']}"
    return "?" if one["end"] is None else clock(one["end"])

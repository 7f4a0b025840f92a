"""What the verbs about the queue share: which host has it, what it says, and which nodes take its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.actions.shared.grants import clock
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted
from gpuadmin.config.queue import takes_jobs, there
from gpuadmin.errors import ConfigError
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session


def controller(session: Session) -> str:
    """The host that has the queue. Raises ConfigError where there is none."""
    if not there(session.site.settings, session.site.inventory.hosts):
        raise ConfigError(
            "this site has no queue: gpuadmin.yml has no section slurm, or no host is in the group slurm",
            hint="docs/slurm.md says how one is set up",
        )
    return session.site.inventory.group("slurm")[0].name


def ask(session: Session, host: str) -> tuple[Answers, RunResult]:
    """Ask Slurm's controller for jobs and nodes."""
    run = session.run("queue", [host], {}, check=True, quiet=True)
    return Answers.of(run.hosts, [host], "queue"), run


def change(session: Session, names: Sequence[str], wanted: Mapping[str, Any]) -> int:
    """Have nodes take no further jobs, or take jobs again (`wanted`: `reason`, `resume`). Returns the exit code."""
    host, inventory = controller(session), session.site.inventory
    nodes = list(dict.fromkeys(one.name for name in names for one in inventory.limited(name, "HOST")))
    for one in inventory.hosts:
        if one.name in nodes and not takes_jobs(session.site.settings, inventory.hosts, one):
            raise ConfigError(
                f"{one.name} takes no jobs of the queue", hint="it is not in gpu, or has slurm_node: false"
            )
    answers, run = ask(session, host)
    if host not in answers.known:
        return report(session, run, {}, unknown=[answers])
    queue = answers.known[host]
    builder = PlanBuilder("Let nodes take jobs again" if wanted["resume"] else "Let nodes take no further jobs")
    for node in nodes:
        builder.add(node, _words(node, queue, wanted))
    session.plan(builder.build())
    session.confirm()
    given = {"gpuadmin_drain": {"nodes": nodes, **wanted}}
    run = session.run("drain", [host], given, check=session.check)
    after = Answers.of(run.hosts, [host], "queue")
    return report(session, run, {"nodes": after.known[host]["nodes"] if host in after.known else None})


def _words(node: str, queue: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What happens to a node, and what is there."""
    unknown = {"state": "not known to Slurm", "reason": ""}
    seen = next((one for one in queue["nodes"] if one["name"] == node), unknown)
    why = f": {seen['reason']}" if seen["reason"] else ""
    if wanted["resume"]:
        return f"takes jobs again ({seen['state']} now{why})"
    jobs = [one for one in queue["jobs"] if node in one["nodes"].split(",")]
    until = max((one["end"] for one in jobs if one["end"]), default=None)
    runs = f"; {counted(len(jobs), 'job')} there, the last until {clock(until)}" if until else ""
    return f"takes no further job ({seen['state']} now{why}){runs}"

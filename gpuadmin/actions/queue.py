"""Show the queue for GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.queue import RESUME, controller, gpuless_words, look, way_back
from gpuadmin.answers import Answers
from gpuadmin.common.text import clock, listed
from gpuadmin.display import make_console, show_table
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import Session, opened


def show_queue(options: Options) -> int:
    """Ask Slurm's controller once. Returns the exit code."""
    with opened("queue", options, changes=False) as session:
        host = controller(session)
        if not session.check:
            builder = PlanBuilder("Show the queue")
            builder.add(host, "ask Slurm's controller who has GPUs, and who waits")
            session.planned(builder.build())
        answers, run = look(session, host)
        result = {"hosts": dict(answers.known), "unknown": dict(answers.unknown)}
        return report(session, run, result, show=lambda: _show(session, answers), unknown=[answers])


def _show(session: Session, answers: Answers) -> None:
    """Print a row for each job; then what is booked, and the nodes that take none."""
    console = make_console(json=False)
    for answer in answers.known.values():
        jobs = answer["jobs"]
        rows = [
            (one["id"], one["user"], one["group"], str(one["gpus"]), one["nodes"] or "–", _when(one), _why(one))
            for one in jobs
        ]
        if rows:
            show_table(console, plain_table(("Job", "Person", "Group", "GPUs", "Node", "Until, or place", "Why"), rows))
        else:
            console.print("Nobody has a GPU from the queue, and nobody is waiting for one.")
        for one in answer.get("reservations", ()):
            who, nodes = listed(one["users"]) or "nobody in particular", ", ".join(one["nodes"]) or "no node"
            console.print(f"{nodes}: booked for {who}, {clock(one['begin'])} to {clock(one['end'])} ({one['name']})")
        for node in answer["nodes"]:
            if node["reason"]:
                console.print(f"{node['name']} takes no jobs ({node['state']}): {node['reason']}")
                back = way_back(node["reason"], node["state"])
                if back != RESUME:  # it is nobody's wish
                    console.print(f"    {back.replace('NODE', node['name'])}")
        for line in gpuless_words(session, answer["nodes"]):
            console.print(line)
    for host, why in answers.unknown.items():
        console.print(f"{host}: unknown: {why}")


def _why(one: Mapping[str, Any]) -> str:
    """Why it waits; or, of an exception, who has made it and why."""
    made = one.get("exception")
    return f"exception by {made['who']}: {made['reason']}" if made else str(one["why"])


def _when(one: Mapping[str, Any]) -> str:
    if one["place"]:
        return f"place {one['place']}, asked {clock(one['asked'])}" if one["asked"] else f"place {one['place']}"
    return "?" if one["end"] is None else clock(one["end"])

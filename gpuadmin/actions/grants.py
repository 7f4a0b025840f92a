"""Show who was granted which GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.actions.shared.grants import clock, gpu_words, look
from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.queue import ask, controller
from gpuadmin.config.queue import there
from gpuadmin.display import make_console
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.session import opened


def show_grants(options: Options) -> int:
    """Ask the nodes once. Returns the exit code."""
    with opened("grants", options, changes=False) as session:
        answers, run = look(session, {})
        known, found = answers.known, [answers]
        if there(session.site.settings, session.site.inventory.hosts):
            queue, _ = ask(session, controller(session))
            known, found = with_exceptions(known, queue.known), [answers, queue]
        unknown = {host: why for one in found for host, why in one.unknown.items()}
        result = {"hosts": dict(known), "unknown": unknown}
        return report(session, run, result, show=lambda: show(known, unknown), unknown=found)


def with_exceptions(
    hosts: Mapping[str, Mapping[str, Any]], queue: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Grants that are jobs' say who has made an exception and why, where one has: only Slurm's controller knows."""
    made = {
        f"slurm-{job['id']}": {"who": job["exception"]["who"], "reason": f"exception: {job['exception']['reason']}"}
        for answer in queue.values()
        for job in answer["jobs"]
        if job.get("exception")
    }
    return {
        host: {**answer, "grants": [{**one, **made.get(one["id"], {})} for one in answer["grants"]]}
        for host, answer in hosts.items()
    }


def show(hosts: Mapping[str, Mapping[str, Any]], unknown: Mapping[str, str]) -> None:
    """Print a row for each grant; then the nodes whose GPUs everybody can open."""
    console = make_console(json=False)
    rows = [
        (
            host,
            gpu_words(one["gpus"], answer["gpus"]),
            one["user"],
            clock(one["until"]),
            one["who"],
            one["reason"],
            one["id"],
        )
        for host, answer in hosts.items()
        for one in answer["grants"]
    ]
    if rows:
        console.print(plain_table(("Node", "GPUs", "Person", "Until", "By", "Why", "Id"), rows))
    elif hosts:
        console.print(f"No GPU is granted to anybody{' on the hosts that answered' if unknown else ''}.")
    free = {host: answer for host, answer in hosts.items() if answer["access"] == "open"}
    if free:
        console.print(f"Open to everybody: {', '.join(free)} (gpus.access).")
    for host, why in unknown.items():
        console.print(f"{host}: unknown: {why}")

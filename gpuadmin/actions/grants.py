"""Show who was granted which GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.actions.shared.grants import clock, gpu_words, look
from gpuadmin.actions.shared.now import plain_table
from gpuadmin.display import make_console
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.session import opened


def show_grants(options: Options) -> int:
    """Ask the nodes once. Returns the exit code."""
    with opened("grants", options, changes=False) as session:
        answers, run = look(session, {})
        result = {"hosts": dict(answers.known), "unknown": dict(answers.unknown)}
        return report(session, run, result, show=lambda: show(answers.known, answers.unknown), unknown=[answers])


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

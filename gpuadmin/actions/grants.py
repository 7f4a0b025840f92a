"""Show who was granted which GPUs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpuadmin.actions.shared.grants import gpu_words, look
from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.common.given import DAY, Given, past
from gpuadmin.common.queries import first_measured
from gpuadmin.common.text import clock
from gpuadmin.display import make_console
from gpuadmin.options import Options
from gpuadmin.outcome import finish, report
from gpuadmin.session import opened


def show_grants(options: Options) -> int:
    """Ask the nodes once. Returns the exit code."""
    with opened("grants", options, changes=False) as session:
        answers, run = look(session, {})
        result = {"hosts": dict(answers.known), "unknown": dict(answers.unknown)}
        return report(session, run, result, show=lambda: show(answers.known, answers.unknown), unknown=[answers])


def show_past(options: Options, days: int) -> int:
    """Ask Prometheus what admins gave in so many days. Returns the exit code."""
    with opened("grants", options, changes=False) as session:
        now, names = time.time(), set(session.some("gpu"))
        with Prometheus(session.site) as prometheus:
            found = [one for one in past(prometheus.over_time, now - days * DAY, now) if one.node in names]
            since = min((one.value for one in prometheus.ask(first_measured(days))), default=None)
        rows = [(one, describe_end(one, now)) for one in found]
        if not options.json:
            begin = max(now - days * DAY, since or 0)
            console = make_console(json=False)
            console.print(f"What admins gave since {clock(begin)}, as measured: a few minutes late.")
            table = [
                (clock(one.begin), one.user, f"{one.gpus} × {one.node}", clock(one.until), how, one.who, one.reason)
                for one, how in rows
            ]
            console.print(plain_table(("From", "Person", "GPUs", "Until", "Ended", "By", "Why"), table))
        result = {"days": days, "since": since, "past": [{**asdict(one), "how": how} for one, how in rows]}
        return finish(session, 0, result)


def describe_end(one: Given, now: float) -> str:
    """How something that was given ended."""
    if one.ended is None:
        return "at its time" if one.until <= now else "goes on"
    return f"given back or ended, {clock(one.ended)}"


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

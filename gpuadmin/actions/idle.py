"""Show who holds a GPU without using it, and what the site's policy says."""

from __future__ import annotations

import time
from dataclasses import asdict

from gpuadmin.actions.shared.now import age, plain_table
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.actions.top import look
from gpuadmin.display import make_console
from gpuadmin.monitoring.idle import Idle, idle, spans
from gpuadmin.monitoring.queries import idle as query_idle
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.session import opened
from gpuadmin.text import listed


def show_idle(options: Options, *, hours: int | None) -> int:
    """Ask Prometheus who has held a device for hours and not used it once. Returns the exit code."""
    with opened("idle", options, changes=False) as session:
        names, metrics = session.some("gpu"), session.site.settings.metrics
        wanted = hours or metrics.idle_hours
        with Prometheus(session.site) as prometheus:
            nodes = look(prometheus, names)
            asked = {span: prometheus.ask(query_idle(span)) for span in spans(wanted)}
        rows = idle(nodes, asked, metrics.idle_exempt)
        unknown = {node.name: node.problem for node in nodes if node.problem is not None}
        if not options.json:
            _show(rows, wanted, list(unknown))
        return finish(session, 0, {"idle": [asdict(row) for row in rows], "hours": wanted, "unknown": unknown})


def _show(rows: list[Idle], hours: int, unknown: list[str]) -> None:
    console = make_console(json=False)
    if rows:
        table = [
            (
                row.user, row.node, row.index, row.name, ", ".join(row.containers) or "—",
                "unknown" if row.since is None else age(time.time() - row.since), f"{row.hours} h or longer",
                row.policy,
            )
            for row in rows
        ]  # fmt: skip
        titles = ("Person", "Node", "GPU", "Model", "Container", "Held for", "Not used for", "Policy")
        console.print(plain_table(titles, table))
        console.print(
            "Nothing is stopped or sent by itself: ask them. gpuadmin.yml: metrics.idle_exempt names who may."
        )
    else:
        console.print(f"Nobody has held a GPU for {hours} h without using it, as far as it is known.")
    if unknown:
        console.print(f"With a problem, and shown only as far as it is known: {listed(unknown)} (gpuadmin top)")

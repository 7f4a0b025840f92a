"""`gpuadmin usage` as a page: a table, and charts as SVG in it. It fetches nothing, so it can be mailed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gpuadmin.common.usage import Bought, Usage
from gpuadmin.templates import load_report_template

#: Marks a file that this verb wrote, and may write again.
MARK = "<!-- made by gpuadmin usage -->\n"
_MOST = 30  # bars of a chart; the table has everybody
_WIDE = 520.0  # of a chart's bars


def usage_page(
    cluster: str,
    kind: str,
    rows: Sequence[Usage],
    everything: Usage,
    whole: Bought,
    period: str,
    now: datetime | None = None,
) -> str:
    """Given what `gpuadmin usage` shows, and of which days, return it as HTML. Hours."""
    template = load_report_template(
        "usage.html.j2",
        hours=lambda value: f"{value:,.1f}",
        ratio=lambda value: "—" if value is None else f"{value:.0%}",
    )
    longest = max((row.held for row in rows), default=0.0)
    text = template.render(
        cluster=cluster, kind=kind, period=period, rows=rows, everything=everything, words=whole.words(),
        queued=everything.allocated > 0 and kind in ("user", "account"),
        when=(now or datetime.now().astimezone()).strftime("%Y-%m-%d %H:%M"), wide=_WIDE, left_out=len(rows[_MOST:]),
        whole=_parts(whole.used, whole.held - whole.used - whole.unknown, whole.unknown, whole.available),
        bars=[(row, _parts(row.active, row.idle, row.held - row.measured, longest)) for row in rows[:_MOST]],
    )  # fmt: skip
    return text.replace("\n", f"\n{MARK}", 1)


def _parts(used: float, idle: float, unknown: float, of: float) -> list[dict[str, Any]]:
    """The parts of a bar, from left to right: where each begins and how wide it is, in the chart's units."""
    parts: list[dict[str, Any]] = []
    at = 0.0
    for name, value in (("used", used), ("idle", idle), ("unknown", unknown)):
        wide = 0.0 if of <= 0 else min(max(value, 0.0) / of * _WIDE, _WIDE - at)
        if wide > 0:
            parts.append({"name": name, "x": round(at, 1), "wide": round(wide, 1), "hours": value})
        at += wide
    return parts

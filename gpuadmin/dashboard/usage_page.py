"""Who held, used and waited how much: a term, a month, or up to a year, by person, account or node. Pure, but for the
question, which is over what roles/monitoring/files/rules/usage.yml records every two hours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from ..common.prometheus import Series
from ..common.samples import Sample
from ..common.usage import Measured, format_csv, usage
from .viewer import Settings

BY = ("user", "account", "node")
SPANS = ("7", "30", "90", "365")  # days, that the page offers; any number up to MOST can be asked for
MOST, DAY, WEEK = 365, 86400, 7 * 86400
JOULES = 3.6e6  # of a kWh
_GRAIN = 300  # seconds: who asks a moment later asks the same


@dataclass(frozen=True)
class Period:
    """From one moment to another, in seconds since 1970; ``name``: of a term."""

    begin: int
    end: int
    name: str = ""

    @property
    def seconds(self) -> int:
        """How long it is."""
        return self.end - self.begin


def choose_period(span: str, settings: Settings, now: float) -> Period | None:
    """Given `30` (days), `month`, `last-month` or `term`, return the time; None for anything else, or to come."""
    today, end = date.fromtimestamp(now), int(now) // _GRAIN * _GRAIN
    first = today.replace(day=1)
    if span.isascii() and span.isdecimal() and len(span) < 4 and 1 <= int(span) <= MOST:
        return Period(end - int(span) * DAY, end)
    if span == "month":
        return _between(first, end)
    if span == "last-month":
        return _between((first - timedelta(days=1)).replace(day=1), _moment(first))
    if span == "term" and settings.term:
        name, begin, last = settings.term
        after = _moment(date.fromisoformat(last) + timedelta(days=1))
        return _between(date.fromisoformat(begin), min(end, after), name)
    return None


def _moment(day: date) -> int:
    return int(datetime(day.year, day.month, day.day).timestamp())


def _between(first: date, end: int, name: str = "") -> Period | None:
    begin = max(_moment(first), end - MOST * DAY)
    return Period(begin, end, name) if begin < end else None


def query_use(period: Period) -> str:
    """Seconds and joules of a time, by kind, person, account and node."""
    span = f"[{period.seconds}s] @ {period.end}"
    return f"sum by (kind, user, account, instance) (sum_over_time(gpuadmin:use:2h{span}))"


def query_measured(period: Period) -> str:
    """In how many hours of a time anything was recorded."""
    return f'2 * max(count_over_time(gpuadmin:use:2h{{kind="available"}}[{period.seconds}s] @ {period.end}))'


def query_waits(share: float, period: Period) -> str:
    """How long that share of jobs waited at most, in the week before each moment; of the whole time if it is less."""
    span = f"[{min(period.seconds, WEEK)}s]"
    return f"histogram_quantile({share}, sum by (le) (sum_over_time(gpuadmin:waits:2h{span})))"


QUERIES = (query_use, query_measured)
SHARES = (0.5, 0.95)


def weeks(period: Period) -> tuple[int, int]:
    """The first and the last moment for query_waits."""
    return period.end - (max(period.seconds // WEEK, 1) - 1) * WEEK, period.end


def rows(found: Sequence[Sample], by: str, nodes: Sequence[str], price: float | None) -> list[dict[str, Any]]:
    """Given the answer to query_use, return a row for each person, account or node, most held first. Hours, kWh."""
    kinds: dict[str, list[Sample]] = defaultdict(list)
    for one in found:
        kinds[one.labels.get("kind", "")].append(one)
    accounts = _find_accounts(kinds["allocated"])
    measured = Measured(
        kinds["held"], kinds["measured"], kinds["active"], kinds["available"], allocated=kinds["allocated"]
    )
    energy: dict[str, float] = defaultdict(float)
    for one in kinds["drawn" if by == "node" else "joules"]:
        user = one.labels.get("user", "")
        name = {"node": one.labels.get("instance", ""), "account": accounts.get(user, "people"), "user": user}[by]
        energy[name] += one.value / JOULES
    return [
        {
            "name": row.name, "allocated": row.allocated, "held": row.held,
            "used": row.active if row.held <= 0 or row.measured > 0 else None, "idle": row.idle,
            "efficiency": row.efficiency, "share": row.share, "kwh": energy.get(row.name),
            "cost": None if price is None or row.name not in energy else price * energy[row.name],
        }
        for row in usage(measured, by, dict.fromkeys(nodes, ()), accounts)
    ]  # fmt: skip


def make_page(
    span: str,
    by: str,
    period: Period,
    used: Sequence[Sample],
    hours: Sequence[Sample],
    waited: Sequence[Sequence[Series]],
    settings: Settings,
) -> dict[str, Any]:
    """What the page shows."""
    try:
        price = float(settings.price) if settings.price else None
    except ValueError:
        price = None
    found = rows(used, by, settings.nodes, price)
    shown = ("allocated", "held", "used", "idle", "efficiency", "share", "kwh", "cost")
    columns = [by, *(one for one in shown if any(row[one] for row in found))]
    spans = [*SPANS, "month", "last-month", *(["term"] if settings.term else [])]
    return {
        "span": span, "spans": spans, "by": by, "kinds": BY, "period": period, "rows": found, "columns": columns,
        "hours": max((one.value for one in hours), default=0.0), "waits": waits(*waited), "currency": settings.currency,
    }  # fmt: skip


def _find_accounts(allocated: Sequence[Sample]) -> dict[str, str]:
    """Each person's account in the queue: the one that most was given to, where somebody has changed."""
    found: dict[str, tuple[float, str]] = {}
    for one in allocated:
        user, account = one.labels.get("user", ""), one.labels.get("account", "")
        found[user] = max(found.get(user, (0.0, "")), (one.value, account))
    return {user: account for user, (_, account) in found.items()}


def waits(middle: Sequence[Series], most: Sequence[Series]) -> list[dict[str, float | None]]:
    """Given the answers for the median and for 95 of 100, return a row for each week: when it ended, seconds."""
    values = [dict(series[0].values) if series else {} for series in (middle, most)]
    return [
        {"end": when, "median": values[0].get(when), "p95": values[1].get(when)}
        for when in sorted({*values[0], *values[1]}, reverse=True)
    ]


def csv_text(by: str, found: Sequence[Mapping[str, Any]]) -> str:
    """The rows for a spreadsheet."""
    names = ("allocated", "held", "used", "idle", "kwh", "cost")
    titles = (by, *(f"{one}_hours" if one not in ("kwh", "cost") else one for one in names))
    return format_csv([titles, *((row["name"], *(row[one] for one in names)) for row in found)])

"""Show how much of the GPUs was held and used."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.pages import write_marked
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.actions.shared.queue import controller
from gpuadmin.actions.shared.usage_page import MARK, usage_page
from gpuadmin.common.queries import (
    allocated_seconds,
    first_measured,
    gpu_seconds,
    granted_seconds,
    mig_devices,
    project_seconds,
    seconds_by_holder,
)
from gpuadmin.common.text import clock
from gpuadmin.common.usage import Measured, Usage, bought, format_csv, sum_projects, total, usage
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.schema import Term
from gpuadmin.console import echo
from gpuadmin.display import make_console
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.reading import expanded
from gpuadmin.session import Session, opened
from gpuadmin.text import one_line

_LATE = 2 * 3600.0  # seconds: measurements that begin so much later than what was asked for are said
_TITLES = ("GPU-hours held", "used", "idle", "efficiency", "of all available")


@dataclass(frozen=True)
class Asked:
    """Of which days somebody asks: the last `days`, those from `first` to `last` (None: today), or the term's."""

    days: int
    first: date | None = None
    last: date | None = None
    term: bool = False


@dataclass(frozen=True)
class Span:
    """So many days up to `end` (seconds since 1970; None: now), in words."""

    words: str
    days: int
    end: float | None = None

    def describe(self, measured: float | None, now: float) -> str:
        """Given since when GPUs were measured, return the span in words; a part that was not measured is named."""
        begin = (self.end or now) - self.days * 86400
        if measured is None or measured - begin <= _LATE:
            return self.words
        return f"{self.words}, measured since {clock(measured)}"


def choose_span(asked: Asked, term: Term | None, today: date) -> Span:
    """Given what somebody asks for and the site's term, return the days. Raises ConfigError.

    >>> choose_span(Asked(30), None, date(2026, 11, 29)).words
    'The last 30 days'
    """
    first, last, name = asked.first, min(asked.last or today, today), ""
    if asked.term:
        if term is None or term.begin is None:
            raise ConfigError(
                "gpuadmin.yml: term.begin is missing", hint="write the day on which the term began, or give --from DAY"
            )
        first, last, name = term.begin, min(term.deadline, today), f"The term {term.name}: "
    if first is None:
        return Span("The last day" if asked.days == 1 else f"The last {asked.days} days", asked.days)
    if first > last:
        raise ConfigError(f"{first} is yet to come", hint="nothing was measured of it: give an earlier day")
    end = datetime.combine(last + timedelta(days=1), datetime.min.time()).timestamp()
    return Span(f"{name}{first} to {last}", (last - first).days + 1, end)


def show_usage(options: Options, *, asked: Asked, kind: str, as_csv: bool, page: str | None = None) -> int:
    """Ask Prometheus for these days, and add up. `page`: a file to write the same to, with charts. Returns the exit
    code.
    """
    with opened("usage", options, changes=False) as session:
        groups, accounts = node_groups(session), read_accounts(session)
        if kind == "account":
            controller(session)  # raises ConfigError where there is no queue
        span = choose_span(asked, session.site.settings.term, date.today())
        days, end = span.days, span.end
        with Prometheus(session.site) as prometheus:
            found, since = measure(session, prometheus, days, end)
        period = span.describe(since, time.time())
        rows, everything = usage(found, kind, groups, accounts), total(found, groups)
        whole = bought(found, groups, days)
        if page is not None:
            path = expanded(page)
            write_marked({path: usage_page(session.site.settings.name, kind, rows, everything, whole, period)}, MARK,
                         option="--html")  # fmt: skip
            echo(f"written: {path}", err=True)
        if not options.json:
            echo(f"{period}.", err=as_csv)
        if as_csv:
            echo(_csv(kind, rows), end=False)
        elif not options.json:
            _show(kind, rows, everything)
            if rows and (words := whole.words()) is not None:
                echo(words)
        result = {
            "days": days, "period": period, "by": kind, "rows": [_document(row) for row in rows],
            "total": _document(everything), "bought": asdict(whole),
        }  # fmt: skip
        return finish(session, 0, result)


def show_projects(options: Options, *, asked: Asked, as_csv: bool) -> int:
    """The hours that the queue gave by project; what was used is known of people alone. Returns the exit code."""
    with opened("usage", options, changes=False) as session:
        controller(session)  # raises ConfigError where there is no queue
        span = choose_span(asked, session.site.settings.term, date.today())
        with Prometheus(session.site) as prometheus:
            hours = sum_projects(prometheus.ask(project_seconds(span.days), span.end))
            since = min((one.value for one in prometheus.ask(first_measured(span.days), span.end)), default=None)
        period = span.describe(since, time.time())
        if not options.json:
            echo(f"{period}.", err=as_csv)
        if as_csv:
            rows = [(name or "(none)", value) for name, value in hours.items()]
            echo(format_csv([("project", "allocated_hours"), *rows]), end=False)
        elif not options.json:
            table = [(name or "(none)", f"{value:.1f}") for name, value in hours.items()]
            title = "GPU-hours allocated"
            make_console(json=False).print(plain_table(("Project", title), table, right=(title,)))
        return finish(session, 0, {"days": span.days, "period": period, "by": "project", "hours": hours})


def measure(session: Session, prometheus: Prometheus, days: int, end: float | None) -> tuple[Measured, float | None]:
    """What was measured in so many days up to a moment (seconds since 1970; None: now), and since when in them."""
    found = Measured(
        held=prometheus.ask(seconds_by_holder("held", days), end),
        measured=prometheus.ask(seconds_by_holder("measured", days), end),
        active=prometheus.ask(seconds_by_holder("active", days), end),
        available=prometheus.ask(gpu_seconds(days), end),
        mig=prometheus.ask(mig_devices(days), end),
        granted=prometheus.ask(granted_seconds(days), end),
        allocated=() if session.site.settings.slurm is None else prometheus.ask(allocated_seconds(days), end),
    )
    return found, min((one.value for one in prometheus.ask(first_measured(days), end)), default=None)


def node_groups(session: Session) -> dict[str, list[str]]:
    """Each node's own groups in the site: racks, labs, whatever the inventory has beyond those of every site."""
    names = set(session.some("gpu"))
    return {
        host.name: [one for one in host.groups if one not in GROUPS] for host in session.hosts if host.name in names
    }


def read_accounts(session: Session) -> dict[str, str]:
    """The account in the queue of each person who is in a group of the site's own."""
    section = session.site.settings.slurm
    shared = {group.name for group in section.groups} if section is not None else set()
    return {one.name: one.group for one in session.site.registry.registry.users if one.group in shared}


def _document(row: Usage) -> dict[str, object]:
    return {**asdict(row), "efficiency": row.efficiency, "idle": row.idle, "share": row.share}


def _show(kind: str, rows: list[Usage], everything: Usage) -> None:
    console = make_console(json=False)
    if not rows:
        words = "no node is in a group of the site's own" if kind == "group" else "nothing was measured"
        console.print(f"Nothing to show: {words}.")
        return
    # where GPUs are open to everybody, nothing is granted; without a queue, nothing is allocated
    shown = {"GPU-hours allocated": "allocated", "GPU-hours granted": "granted"}
    # what the queue gave is known of people, not of nodes
    lacking = {"allocated"} if kind in ("node", "group") else set()
    first = tuple(title for title, name in shown.items() if getattr(everything, name) and name not in lacking)
    table = [
        (row.name, *(f"{getattr(row, shown[title]):.1f}" for title in first), *_cells(row))
        for row in [*rows, everything]
    ]
    console.print(plain_table((kind.capitalize(), *first, *_TITLES), table, right=(*first, *_TITLES)))


def _cells(row: Usage) -> tuple[str, ...]:
    def ratio(value: float | None) -> str:
        return "—" if value is None else f"{value:.0%}"

    return f"{row.held:.1f}", f"{row.active:.1f}", f"{row.idle:.1f}", ratio(row.efficiency), ratio(row.share)


def _csv(kind: str, rows: list[Usage]) -> str:
    more = [name for name in ("granted", "allocated") if any(getattr(row, name) for row in rows)]
    shown = ("held", "measured", "active", "available", *more)
    titles = (kind, *(f"{name}_hours" for name in shown))
    return format_csv([titles, *((one_line(row.name), *(getattr(row, name) for name in shown)) for row in rows)])

"""A month's figures, for the report: from measurements, and from the runs of `idle --act`. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as clock
from typing import Any

from gpuadmin.common.given import Given
from gpuadmin.common.samples import Sample
from gpuadmin.common.text import as_fields
from gpuadmin.common.usage import EVERYBODY, HOUR, Bought, Measured, Usage, bought, sum_projects, total, usage
from gpuadmin.errors import ConfigError

LATE = 2 * HOUR  # seconds: measurements that begin so much later than the month are said


@dataclass(frozen=True)
class Month:
    """A month that is over; by its first day."""

    first: date

    @property
    def name(self) -> str:
        """As it is typed: `2026-11`."""
        return f"{self.first:%Y-%m}"

    @property
    def days(self) -> int:
        """How many it has."""
        return (self.next - self.first).days

    @property
    def next(self) -> date:
        """The first day after it."""
        return (self.first + timedelta(days=31)).replace(day=1)

    @property
    def span(self) -> tuple[float, float]:
        """Begin and end in seconds since 1970, in this machine's zone."""
        begin, end = (datetime.combine(one, clock()).timestamp() for one in (self.first, self.next))
        return begin, end

    @property
    def before(self) -> Month:
        """The month before."""
        return Month((self.first - timedelta(days=1)).replace(day=1))


def choose_month(text: str | None, today: date) -> Month:
    """Given `2026-11`, or None for the last month that is over, return it. Raises ConfigError.

    >>> choose_month(None, date(2026, 12, 3)).name
    '2026-11'
    """
    last = Month(today.replace(day=1)).before
    if text is None:
        return last
    try:
        found = Month(datetime.strptime(text, "%Y-%m").date()) if re.fullmatch(r"\d{4}-\d\d", text) else None
    except ValueError:
        found = None
    if found is None:
        raise ConfigError(f"--month {text!r} is not a month", hint="such as 2026-11")
    if found.first > last.first:  # guard: the figures of a month that goes on are not sent as the month's
        raise ConfigError(f"{text} is not over", hint=f"gpuadmin usage --from {found.first} shows what there is of it")
    return found


@dataclass(frozen=True)
class Figures:
    """A month in numbers. `since`: when measuring began, where that was within it; None: it was measured from its
    begin, or (`measured` false) not at all. `waits`: seconds, of each job that began, by person.
    """

    month: Month
    measured: bool
    since: float | None
    everything: Usage
    whole: Bought
    people: Sequence[Usage]
    accounts: Sequence[Usage]
    projects: Mapping[str, float]  # GPU-hours that the queue gave
    waits: Mapping[str, Sequence[float]]
    account_of: Mapping[str, str]
    kwh: float | None
    given: Sequence[Given] = ()
    ended: Sequence[float] = field(default=())  # hours: how long each hold that the idle rule ended was not used

    @property
    def all_waits(self) -> list[float]:
        """Everybody's."""
        return [one for found in self.waits.values() for one in found]

    def find_waits(self, account: str) -> list[float]:
        """Those of an account's people."""
        whose = ((self.account_of.get(user, EVERYBODY), found) for user, found in self.waits.items())
        return [one for name, found in whose if name == account for one in found]


def make_figures(
    month: Month, found: Measured, groups: Mapping[str, Sequence[str]], account_of: Mapping[str, str], *,
    since: float | None, waits: Iterable[Sample] = (), energy: Iterable[Sample] = (), projects: Iterable[Sample] = (),
    given: Sequence[Given] = (), ended: Sequence[float] = (),
) -> Figures:  # fmt: skip
    """Given what Prometheus answered to the questions of `usage` and of a report, return the month's figures."""
    waited: dict[str, list[float]] = {}
    for one in waits:
        waited.setdefault(one.labels.get("user", ""), []).append(one.value)
    hours = {name: value for name, value in sum_projects(projects).items() if name}
    kwh = [one.value for one in energy if one.labels.get("instance") in groups]
    late = since is not None and since - month.span[0] > LATE
    return Figures(
        month, since is not None, since if late else None, total(found, groups), bought(found, groups, month.days),
        usage(found, "user", groups), usage(found, "account", groups, account_of), hours, waited, account_of,
        sum(kwh) if kwh else None, given, ended,
    )  # fmt: skip


def median(values: Sequence[float]) -> float | None:
    """The one in the middle; None of nothing."""
    return statistics.median(values) if values else None


def most(values: Sequence[float]) -> float | None:
    """What 95 of 100 are at most; None of nothing."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)] if values else None


def ended_idle(runs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]], month: Month) -> list[float]:
    """Given the records of runs, return for each GPU that `idle --act` took from somebody in a month how many hours it
    had not been used.
    """
    begin, end = month.span
    found = []
    for run, result in runs:
        started = datetime.fromisoformat(str(run["started"])).timestamp()
        if run["verb"] == "idle" and not run["check"] and begin <= started < end:
            # guard: an odd record of another machine ends no report
            with suppress(KeyError, TypeError, AttributeError):
                found += _read_unused(as_fields((result or {}).get("result")), started)
    return found


def _read_unused(answer: Mapping[str, Any], now: float) -> list[float]:
    stopped = {
        (host, one["user"], one["uuid"])
        for host, ones in as_fields(answer.get("stopped")).items()
        for one in ones
        if one["status"] == "stopped"
    }
    found = []
    for step in answer.get("steps") or ():
        row = step["row"]
        since = row.get("unused")  # what nobody has granted may have been used
        gone = (row["node"], row["user"], row["uuid"]) in stopped or row.get("job") in (answer.get("jobs") or ())
        if step["what"] == "stop" and gone and since:
            found.append((now - since) / HOUR)
    return found

"""What admins have given to people, also what is over: grants, and exceptions of the queue, as measured. Pure.

Measurements are the one source that all admins share, that has both kinds and that the dashboard can ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .prometheus import Series
from .queries import GIVEN

STEP = 300  # seconds between two points
DAY = 86400
_MOST = 30 * DAY  # seconds of one question: Prometheus answers with at most 11,000 points


@dataclass(frozen=True)
class Given:
    """GPUs of one node. `begin`, `until`, `ended`: seconds since 1970, of what was measured some minutes late. `ended`:
    when it was last there, where that is before `until`; None: it ended at its time, or goes on.
    """

    user: str
    node: str
    gpus: int
    who: str
    reason: str
    begin: float
    until: float
    ended: float | None = None


def past(ask: Callable[[str, float, float, int], Iterable[Series]], begin: float, end: float) -> list[Given]:
    """Given how to ask Prometheus over time, return what was given between two moments, the newest first."""
    found: list[Series] = []
    while begin < end:
        found += ask(GIVEN, begin, min(begin + _MOST, end), STEP)
        begin += _MOST
    return merge_given(found, end)


def merge_given(series: Iterable[Series], end: float) -> list[Given]:
    """Given an answer to GIVEN up to a moment, return what was given: a row for all GPUs of one grant."""
    points: dict[tuple[str, ...], dict[float, float]] = {}
    for one in series:
        key = tuple(one.labels.get(name, "") for name in ("user", "instance", "who", "reason", "uuid"))
        points.setdefault(key, {}).update(one.values)
    rows: dict[tuple[object, ...], Given] = {}
    for (user, node, who, reason, _uuid), values in points.items():
        for first, last, until in _pieces(values):
            over = min(until, end)
            ended = last if last < over - 2 * STEP else None
            same = user, node, who, reason, round(until / STEP)
            gpus, begin = (rows[same].gpus, min(first, rows[same].begin)) if same in rows else (0, first)
            rows[same] = Given(user, node, gpus + 1, who, reason, begin, until, ended)
    return sorted(rows.values(), key=lambda one: (-one.begin, one.user))


def _pieces(values: dict[float, float]) -> list[tuple[float, float, float]]:
    """First, last and until of each grant of one GPU: a later end of one that goes on is more time for it."""
    found: list[tuple[float, float, float]] = []
    for at, until in sorted(values.items()):
        if found and (at - found[-1][1] <= 3 * STEP or abs(until - found[-1][2]) < STEP):
            found[-1] = (found[-1][0], at, until)
        else:
            found.append((at, at, until))
    return found

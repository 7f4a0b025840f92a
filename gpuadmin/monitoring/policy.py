"""What is done about a GPU that is held and not used, or not granted: tell its person, wait, then end it. Pure.

When in doubt, keep: nobody is stopped who may not have been told, and nothing that may have been used since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from gpuadmin.common.idle import Idle

HOUR = 3600.0


@dataclass(frozen=True)
class Rules:
    """A site's. `after`: hours until somebody is told; `notice`: hours from then until it is ended; `stop`: whether it
    is at all; `exempt`: who is neither told nor stopped; `people`: who can be told. Where GPUs are for those who were
    granted one, what nobody granted is ended in any case, and only `protected` people are left alone.
    """

    after: int
    notice: int
    stop: bool
    exempt: Collection[str]
    people: Collection[str]
    protected: Collection[str] = ()

    def ends(self, row: Idle) -> bool:
        """Whether it is ended after the notice."""
        return (
            row.ungranted is not None or self.stop  # guard: nothing is ended where the site does not say so -> True
        )


@dataclass(frozen=True)
class Step:
    """What is done about one. `what`: tell, wait (until `due`), stop, or nothing (`why`). `notified`: when that was."""

    row: Idle
    what: str
    why: str = ""
    notified: float | None = None
    due: float | None = None


def make_key(row: Idle, rules: Rules) -> str:
    """The key under which the ledger of mails records what somebody was told: that it will be ended, and when.

    After it was used, the next time has another key. Whoever was told of more time, or of no end, was not told of this
    one.
    """
    assert row.wrong_since is not None
    parts = (
        _kind(row),  # guard: who was told of one reason was not told of another
        row.node,  # guard: who was told of one node was not told of another
        row.uuid,  # guard: who was told of one GPU was not told of another
        row.user,
        int(row.wrong_since),  # guard: who was told of one idle time was not told of the next
        rules.notice if rules.ends(row) else 0,  # guard: who was told of no end is not stopped
    )
    return " ".join(map(str, parts))


def _kind(row: Idle) -> str:
    if row.ungranted is not None:
        return "ungranted"
    return f"job-{row.job}" if row.job else "idle"


def steps(rows: Iterable[Idle], rules: Rules, notified: Callable[[str], float | None], now: float) -> list[Step]:
    """Given who holds what without using it, return what is done about each.

    `notified`: when a key's mail was sent (seconds since 1970); None if nobody knows that it was.
    """
    return [_step(row, rules, notified, now) for row in rows]


def _step(row: Idle, rules: Rules, notified: Callable[[str], float | None], now: float) -> Step:
    why = _left_alone(row, rules, now)
    if why:
        return Step(row, "nothing", why)
    when = notified(make_key(row, rules))
    if when is None:
        return Step(row, "tell")
    if not rules.ends(row):
        return Step(row, "nothing", "was told", notified=when)
    due = when + rules.notice * HOUR
    assert row.wrong_since is not None
    if (
        not row.wrong_since <= when <= now
        # guard: nothing is ended before its notice is over
        or now < due
    ):  # a mail of the future is one of a clock that was wrong
        return Step(row, "wait", notified=when, due=max(due, now))
    return Step(row, "stop", notified=when, due=due)


def _left_alone(row: Idle, rules: Rules, now: float) -> str:
    """Why nothing is done; empty if something is."""
    if row.user in (rules.exempt if row.ungranted is None else rules.protected):  # guard: exempt people are left alone
        return "exempt"
    if row.user not in rules.people:
        return "not in users.yml"
    if row.ungranted is not None:
        return ""
    if row.unused is None:
        return "the node does not say since when it has been unused"
    if now - row.unused < rules.after * HOUR:
        return "the node saw it used since"
    return ""

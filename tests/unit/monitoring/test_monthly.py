"""A month's figures and its report: from numbers, and from runs."""

from datetime import date
from typing import Any

import pytest

from gpuadmin.common.given import STEP, Given, merge_given
from gpuadmin.common.prometheus import Series
from gpuadmin.common.samples import Sample
from gpuadmin.common.usage import HOUR, Measured
from gpuadmin.config.schema import Mail
from gpuadmin.errors import ConfigError
from gpuadmin.mail.reporting import WORDS, MonthReport, compose, make_letters
from gpuadmin.monitoring.monthly import Figures, Month, choose_month, ended_idle, make_figures, median, most

TODAY = date(2026, 11, 29)
MONTH = Month(date(2026, 10, 1))
BEGIN, END = MONTH.span


def sample(value: float, **labels: str) -> Sample:
    return Sample("", labels, value)


def figures(month: Month = MONTH, since: float | None = BEGIN, **more: Any) -> Figures:
    where = {"instance": "gpu1"}
    found = Measured(
        held=[sample(10 * HOUR, user="minji", uuid="a", **where), sample(5 * HOUR, user="jiho", uuid="b", **where)],
        measured=[sample(10 * HOUR, user="minji", uuid="a", **where)],
        active=[sample(8 * HOUR, user="minji", uuid="a", **where)],
        available=[sample(100 * HOUR, **where)],
        allocated=[sample(12 * HOUR, user="minji", account="phd")],
    )
    return make_figures(month, found, {"gpu1": ()}, {"minji": "phd"}, since=since, **more)


def report(language: str = "en", month: Figures | None = None, **more: Any) -> MonthReport:
    given: dict[str, Any] = {"price": 150.0, "currency": "KRW", "queue": True, **more}
    before = figures(MONTH.before, since=None)
    return compose("lab", language, month or figures(), before, **given)


@pytest.mark.parametrize(
    ("text", "name", "days"), [(None, "2026-10", 31), ("2024-02", "2024-02", 29), ("2026-10", "2026-10", 31)]
)
def test_a_month(text: str | None, name: str, days: int) -> None:
    found = choose_month(text, TODAY)
    assert (found.name, found.days, found.before.next) == (name, days, found.first)
    assert choose_month(None, date(2027, 1, 1)).name == "2026-12"


@pytest.mark.holds("the figures of a month that goes on are not sent as the month's")
@pytest.mark.parametrize(
    ("text", "says"), [("2026-11", "not over"), ("2026-13", "not a month"), ("october", "not a"), ("2026-1", "not a")]
)
def test_what_is_no_month(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        choose_month(text, TODAY)


def test_what_a_report_says() -> None:
    given = [Given("jiho", "gpu1", 2, "kim", "<b>", BEGIN, BEGIN + 9 * HOUR, BEGIN + HOUR)]
    waits = [sample(3700, id="1", user="minji"), sample(60, id="2", user="jiho")]
    made = report(
        month=figures(
            since=BEGIN + 5 * 86400, waits=waits, energy=[sample(2.0, instance="gpu1"), sample(9.0, instance="else")],
            projects=[sample(3 * HOUR, user="minji", project="nlp"), sample(9 * HOUR, user="minji")], given=given,
            ended=[5.5],
        )
    )  # fmt: skip
    assert made.lines == [
        "2026-10, measured since 2026-10-06 00:00.", "2026-09: nothing was measured.",
        "Of 100.0 GPU-hours available, 15% were held and 8% used.",
    ]  # fmt: skip
    everything, accounts, people, projects, exceptions = made.tables
    assert [row[1:] for row in everything.rows] == [
        ("100.0", "–"), ("15.0", "–"), ("8.0", "–"), ("2.0", "–"), ("12.0", "–"), ("2", "–"), ("0:31", "–"),
        ("1:01", "–"), ("2.0", "–"), ("300.0 KRW", "–"), ("1", "0"), ("5.5", "0.0"),
    ]  # fmt: skip
    assert accounts.rows[0] == ("phd", "10.0", "8.0", "2.0", "12.0", "1:01")
    assert people.rows[1] == ("jiho", "5.0", "–", "–", "0.0", "0:01"), "whether it was used, nobody knows"
    assert projects.rows == [("nlp", "3.0")]
    assert exceptions.rows == [
        ("jiho", "2 × gpu1", "2026-10-01 00:00", "2026-10-01 09:00", "2026-10-01 01:00", "kim", "<b>")
    ]


def test_what_was_not_measured_is_not_zero() -> None:
    rows = {row[0]: row[1] for row in report().tables[0].rows}
    assert (rows["kWh of the GPUs"], rows["cost of that"]) == ("–", "–")
    assert not [row for row in report(price=None, queue=False).tables[0].rows if "cost" in row[0] or "wait" in row[0]]
    assert (median([]), most([]), most([1.0, 3.0, 2.0])) == (None, None, 3.0)


def test_both_languages_say_the_same() -> None:
    english, korean = report("en"), report("ko")
    assert [one.rows[0][1:] for one in english.tables] == [one.rows[0][1:] for one in korean.tables]
    for first, second in WORDS.values():
        assert first.count("{") == second.count("{")
        assert first.isascii()


def test_the_letters() -> None:
    where = {"host": "localhost", "sender": "gpu@example.org", "languages": ["ko", "en"]}
    mail = Mail.model_validate({**where, "report": ["Prof@example.org", "Prof@example.org", "b@example.org"]})
    found = make_letters(report("ko"), "2026-10", mail)
    assert [one.keys for one in found] == [("report 2026-10 prof@example.org",), ("report 2026-10 b@example.org",)]
    assert found[0].languages == ("ko",)


def _run(started: str, status: str = "stopped", **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    row = {"node": "gpu1", "user": "minji", "uuid": "a", "unused": BEGIN, "job": ""}
    result = {"steps": [{"what": "stop", "row": row}], "stopped": {"gpu1": [{**row, "status": status}]}, "jobs": []}
    return {"verb": "idle", "check": False, "started": started, **more}, {"result": result}


def test_what_the_idle_rule_took_back() -> None:
    runs = [
        _run("2026-10-01T03:00:00+00:00"), _run("2026-10-01T03:00:00+00:00", "kept"),
        _run("2026-10-01T03:00:00+00:00", check=True), _run("2026-11-01T03:00:00+00:00"),
        _run("2026-10-01T03:00:00+00:00", verb="top"),
    ]  # fmt: skip
    (hours,) = ended_idle([*runs, (runs[0][0], None)], MONTH)
    assert 0 <= hours <= 15, "in the machine's zone"
    odd: list[Any] = [
        {"steps": [{}]},
        {"steps": [1]},
        {"steps": 1},
        {"stopped": {"gpu1": [{}]}},
        {"stopped": {"gpu1": 1}},
    ]
    assert ended_idle([(runs[0][0], {"result": one}) for one in odd], MONTH) == []


def _series(begin: float, last: float, until: float, uuid: str = "a", user: str = "minji") -> Series:
    at = [begin + STEP * number for number in range(int((last - begin) // STEP) + 1)]
    labels = {"user": user, "instance": "gpu1", "who": "kim", "reason": "paper", "uuid": uuid}
    return Series(labels, tuple((one, until) for one in at))


def test_what_was_given() -> None:
    """Two GPUs at once are one; what came back after a gap with the same end, too; a later end is more time."""
    end = BEGIN + 100 * HOUR
    early = [_series(BEGIN, BEGIN + HOUR, BEGIN + 5 * HOUR, uuid) for uuid in "ab"]
    assert merge_given(early, end) == [
        Given("minji", "gpu1", 2, "kim", "paper", BEGIN, BEGIN + 5 * HOUR, BEGIN + HOUR),
    ]
    gap = [_series(BEGIN, BEGIN + HOUR, end + HOUR), _series(BEGIN + 9 * HOUR, end, end + HOUR)]
    assert [(one.begin, one.ended) for one in merge_given(gap, end)] == [(BEGIN, None)], "it goes on"
    more = [_series(BEGIN, BEGIN + HOUR, BEGIN + HOUR), _series(BEGIN + HOUR, BEGIN + 2 * HOUR, BEGIN + 2 * HOUR)]
    assert [(one.until, one.ended) for one in merge_given(more, end)] == [(BEGIN + 2 * HOUR, None)]
    twice = [
        _series(BEGIN, BEGIN + HOUR, BEGIN + HOUR),
        _series(BEGIN + 9 * HOUR, BEGIN + 10 * HOUR, BEGIN + 20 * HOUR),
    ]
    assert [one.ended for one in merge_given(twice, end)] == [BEGIN + 10 * HOUR, None]

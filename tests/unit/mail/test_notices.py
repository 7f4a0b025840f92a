"""Who is told when: as tables, and what must hold on any sequence of days."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpuadmin.common.mail.ledger import State
from gpuadmin.config.schema import Registry, Settings
from gpuadmin.errors import ConfigError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import due, most_urgent, never_notified, plan_closing, plan_notices
from gpuadmin.semester.term import extended, standings

DEADLINE = date(2026, 12, 31)
TERM: dict[str, Any] = {"name": "2026-2", "deadline": "2026-12-31"}

URGENT = {
    "too early": (20, [14, 7, 1], None),
    "the day itself": (14, [14, 7, 1], 14),
    "a day was missed": (13, [14, 7, 1], 14),
    "a week was missed": (6, [14, 7, 1], 7),
    "the order does not matter": (6, [1, 14, 7], 7),
    "the last but one": (2, [14, 7, 1], 7),
    "the last": (1, [14, 7, 1], 1),
    "on the day": (0, [14, 7, 1], 1),
    "too late": (-1, [14, 7, 1], None),
    "no reminders": (3, [], None),
}


@pytest.mark.parametrize(("days", "reminders", "rule"), URGENT.values(), ids=URGENT.keys())
def test_the_most_urgent_reminder(days: int, reminders: list[int], rule: int | None) -> None:
    assert most_urgent(DEADLINE, DEADLINE - timedelta(days=days), reminders) == rule


def site(*users: dict[str, Any], **more: Any) -> tuple[Registry, Settings]:
    people = [{"email": f"{user['name']}@example.org", **user} for user in users]
    settings = Settings.model_validate({"name": "test", "term": TERM, **more})
    return Registry.model_validate({"users": people}), settings


STANDING: dict[str, tuple[dict[str, Any], list[str], bool]] = {
    "nobody said anything": ({}, [], False),
    "valid until the deadline": ({"expires": "2026-12-31"}, [], False),
    "expired": ({"expires": "2026-01-31"}, [], False),
    "locked": ({"locked": True}, [], False),
    "promised for longer": ({"expires": "2027-01-01"}, [], True),
    "extended": ({"stays": "2026-2"}, [], True),
    "extended in an earlier term": ({"stays": "2026-1"}, [], False),
    "extended in an earlier term, and promised": ({"stays": "2026-1", "expires": "2027-06-30"}, [], True),
    "kept": ({}, ["minji"], True),
    "another is kept": ({}, ["jiho"], False),
}


@pytest.mark.parametrize(("fields", "keep", "stays"), STANDING.values(), ids=STANDING.keys())
def test_who_stays(fields: dict[str, Any], keep: list[str], stays: bool) -> None:
    registry, settings = site({"name": "minji", **fields})
    (standing,) = standings(registry, settings, keep)
    assert standing.stays == stays
    assert standing.reason
    found = due(registry, settings, DEADLINE - timedelta(days=3), keep)
    assert [notice.kind for notice in found if notice.kind == "term"] == ([] if stays else ["term"])


def test_protected_people_stay_and_are_told_nothing() -> None:
    registry, settings = site({"name": "minji", "expires": "2026-12-30"}, protected=["minji"])
    assert standings(registry, settings)[0].stays
    assert due(registry, settings, DEADLINE) == []


def test_no_term() -> None:
    registry, settings = site({"name": "minji"}, term=None)
    with pytest.raises(ConfigError, match="term: is missing"):
        standings(registry, settings)
    assert due(registry, settings, DEADLINE) == []


NEXT = {**TERM, "next": {"name": "2027-1", "deadline": "2027-06-30"}}
EXTENDED: list[tuple[dict[str, Any], str | None, str | None, str | None]] = [
    # the term's fields, valid until, --until, valid until afterwards
    (NEXT, None, None, None),
    (NEXT, "2026-12-31", None, "2027-06-30"),
    (NEXT, "2026-01-31", None, "2027-06-30"),
    (NEXT, "2028-01-31", None, "2028-01-31"),
    (NEXT, None, "2027-03-01", "2027-03-01"),
    (NEXT, "2028-01-31", "2027-03-01", "2027-03-01"),
    (TERM, None, None, None),
    (TERM, "2028-01-31", None, "2028-01-31"),
    (TERM, "2026-12-31", "2027-06-30", "2027-06-30"),
]


@pytest.mark.parametrize(("term", "before", "until", "after"), EXTENDED)
def test_extending(term: dict[str, Any], before: str | None, until: str | None, after: str | None) -> None:
    registry, settings = site({"name": "minji", "expires": before}, term=term)
    assert settings.term is not None
    day = None if until is None else date.fromisoformat(until)
    user = extended(registry.users[0], settings.term, day)
    assert user.stays == "2026-2"
    assert str(user.expires) == str(after)
    (standing,) = standings(registry.model_copy(update={"users": [user]}), settings)
    assert standing.stays


def test_extending_needs_a_date_after_the_term() -> None:
    registry, settings = site({"name": "minji", "expires": "2026-12-31"})
    assert settings.term is not None
    with pytest.raises(ConfigError, match="does not say when the next term ends"):
        extended(registry.users[0], settings.term, None)
    with pytest.raises(ConfigError, match="not after the end of 2026-2"):
        extended(registry.users[0], settings.term, DEADLINE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"next": {"name": "2027-1", "deadline": "2026-12-31"}},
        {"next": {"name": "2026-2", "deadline": "2027-06-30"}},
        {"reminders": [7, 7]},
        {"reminders": [-1]},
    ],
)
def test_terms_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        site(term={**TERM, **wrong})


def test_one_mail_for_each_address(tmp_path: Path) -> None:
    registry, settings = site(
        {"name": "minji", "email": "lab@example.org"},
        {"name": "jiho", "email": "Lab@example.org", "expires": "2026-12-28"},
        {"name": "yuna", "email": None},
        {"name": "seo"},
    )
    notices = plan_notices(registry, settings, date(2026, 12, 25), Ledger.of(tmp_path))
    assert [letter.names for letter in notices.letters] == [("jiho", "minji"), ("seo",)]
    together = notices.letters[0]
    assert together.address == "lab@example.org"
    assert together.keys == (
        "expiry jiho 2026-12-28 7",
        "term jiho 2026-12-31 7 2026-2",
        "term minji 2026-12-31 7 2026-2",
    )
    assert together.values["days"] == 3
    assert notices.without_address == ("yuna",)
    assert "yuna" in notices.warnings[0]


def test_what_is_not_sent_is_said(tmp_path: Path) -> None:
    registry, settings = site({"name": "minji"}, {"name": "jiho"}, {"name": "seo"})
    today, ledger = date(2026, 12, 25), Ledger.of(tmp_path)
    minji, jiho, seo = plan_notices(registry, settings, today, ledger).letters
    ledger.begin(minji, "smtp")
    ledger.finish(jiho, ledger.begin(jiho, "smtp"), State.REFUSED, "550 no")
    ledger.finish(seo, ledger.begin(seo, "smtp"), State.SENT)
    notices = plan_notices(registry, settings, today, Ledger.of(tmp_path))
    assert notices.letters == ()
    assert notices.notified == ("seo",)
    assert "--again minji" in notices.warnings[0]
    assert "550 no" in notices.warnings[1]
    assert notices.document()["uncertain"][0]["names"] == ["minji"]
    again = plan_notices(registry, settings, today, ledger, again=["minji", "jiho", "seo"])
    assert [letter.names for letter in again.letters] == [("minji",), ("jiho",)]
    # the next reminder is another mail, whatever became of this one
    later = plan_notices(registry, settings, date(2026, 12, 30), ledger)
    assert len(later.letters) == 3


def test_a_deadline_that_moves_is_told_again(tmp_path: Path) -> None:
    registry, settings = site({"name": "minji"})
    ledger, today = Ledger.of(tmp_path), date(2026, 12, 25)
    (first,) = plan_notices(registry, settings, today, ledger).letters
    ledger.finish(first, ledger.begin(first, "smtp"), State.SENT)
    assert plan_notices(registry, settings, today, ledger).letters == ()
    _, moved = site(term={**TERM, "deadline": "2027-01-02"})
    (second,) = plan_notices(registry, moved, today, ledger).letters
    assert second.values["items"][0]["day"] == date(2027, 1, 2)


def test_the_end_is_told_once(tmp_path: Path) -> None:
    registry, _ = site(
        {"name": "minji"}, {"name": "jiho", "email": "minji@example.org"}, {"name": "seo", "email": None}
    )
    ledger = Ledger.of(tmp_path)
    found = plan_closing(registry.users, "2026-2", ledger, backup_until=None)
    (letter,) = found.letters
    assert letter.names == ("minji", "jiho")
    assert found.without_address == ("seo",)
    ledger.finish(letter, ledger.begin(letter, "smtp"), State.SENT)
    assert plan_closing(registry.users, "2026-2", ledger, backup_until=None).letters == ()
    assert plan_closing(registry.users, "2027-1", ledger, backup_until=None).letters


def test_who_was_never_told(tmp_path: Path) -> None:
    registry, settings = site({"name": "minji"}, {"name": "jiho"}, {"name": "seo"}, {"name": "yuna", "email": None})
    ledger = Ledger.of(tmp_path)
    minji, jiho, _ = plan_notices(registry, settings, date(2026, 12, 25), ledger).letters
    ledger.finish(minji, ledger.begin(minji, "smtp"), State.SENT)
    ledger.finish(jiho, ledger.begin(jiho, "smtp"), State.REFUSED)
    assert settings.term is not None
    assert never_notified(registry.users, settings.term, ledger) == ["jiho", "seo", "yuna"]
    moved = settings.term.model_copy(update={"deadline": date(2027, 1, 31)})
    assert never_notified(registry.users[:1], moved, ledger) == ["minji"], "that was another deadline"


@given(
    reminders=st.lists(st.integers(0, 30), unique=True, max_size=5),
    days=st.lists(st.integers(-5, 40), max_size=15).map(lambda found: sorted(found, reverse=True)),
)
def test_on_whatever_days_it_runs(
    tmp_path_factory: pytest.TempPathFactory, reminders: list[int], days: list[int]
) -> None:
    """Each reminder at most once, never two on a day, never after the end, and never one that a later one overtook."""
    registry, settings = site({"name": "minji"}, term={**TERM, "reminders": reminders})
    ledger = Ledger.of(tmp_path_factory.mktemp("site"))
    sent: list[tuple[int, int]] = []
    for left in days:
        letters = plan_notices(registry, settings, DEADLINE - timedelta(days=left), ledger).letters
        assert len(letters) <= 1
        for letter in letters:
            ledger.finish(letter, ledger.begin(letter, "smtp"), State.SENT)
            rule = int(letter.keys[0].split()[3])
            assert 0 <= left <= rule
            assert letter.values["days"] == left
            assert not [other for other in reminders if left <= other < rule]
            sent.append((rule, left))
    rules = [rule for rule, _ in sent]
    assert rules == sorted(set(rules), reverse=True)
    for rule in reminders:
        # a reminder is passed over only if nothing ran between it and the next more urgent one
        more_urgent = max((other for other in reminders if other < rule), default=-1)
        assert (rule in rules) == any(more_urgent < left <= rule and left >= 0 for left in days)

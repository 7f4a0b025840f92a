"""What is done about a GPU that is held and not used, hour by hour, by a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuadmin.actions.idle import _jobs, _messages
from gpuadmin.common.idle import Idle
from gpuadmin.common.mail.ledger import State
from gpuadmin.config.schema import Registry
from gpuadmin.mail.idling import plan_idle, terminal_words
from gpuadmin.mail.ledger import Ledger
from gpuadmin.monitoring.policy import HOUR, Rules, Step, make_key, steps

BEGIN = 1_800_000_000.0
RULES = Rules(after=2, notice=4, stop=True, exempt={"boss"}, people={"minji", "boss"})
ROW = Idle("minji", "gpu1", "GPU-1", "0", "H100", ("train",), BEGIN - HOUR, 2, "tell", BEGIN)
NOBODY: dict[str, float] = {}


class World:
    """One hold on a GPU, the policy that looks at it, and what it did: (hour, what)."""

    def __init__(self, rules: Rules = RULES, row: Idle = ROW) -> None:
        self.rules, self.row, self.now = rules, row, BEGIN
        self.notified: dict[str, float] = {}
        self.done: list[tuple[float, str]] = []

    def look(self, *, mailed: bool = True) -> Step:
        (step,) = steps([self.row], self.rules, self.notified.get, self.now)
        if step.what in ("tell", "stop"):
            self.done.append(((self.now - BEGIN) / HOUR, step.what))
        if step.what == "tell" and mailed:
            self.notified[make_key(self.row, self.rules)] = self.now
        return step

    def until(self, hour: float, every: float = 0.5) -> World:
        """Look every half hour, as cron does."""
        while self.now < BEGIN + hour * HOUR:
            self.now += every * HOUR
            self.look()
        return self


def test_who_uses_it_in_between_is_told_anew() -> None:
    world = World().until(5.5)
    world.row = replace(world.row, unused=BEGIN + 5.5 * HOUR)  # it was used, for a moment
    world.until(14)
    assert world.done == [(2, "tell"), (7.5, "tell"), *((hour / 2, "stop") for hour in range(23, 29))]


def test_who_was_not_told_that_it_will_be_ended_is_told_first() -> None:
    """The site allows stopping now: the mail of before said nothing of it."""
    world = World(replace(RULES, stop=False)).until(50)
    world.rules = RULES
    assert world.until(53.5).done == [(2, "tell"), (50.5, "tell")]
    world.rules = replace(RULES, notice=1)  # a shorter notice is another promise
    assert world.until(54).done[-1] == (54, "tell")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (replace(ROW, user="boss"), "exempt"),
        (replace(ROW, user="(unknown)"), "not in users.yml"),
        (replace(ROW, unused=None), "does not say since when"),
        (replace(ROW, unused=BEGIN + 1000 * HOUR), "saw it used since"),
    ],
)
def test_who_is_left_alone(row: Idle, why: str) -> None:
    world = World(row=row)
    world.notified[make_key(replace(row, unused=row.unused or 0), RULES)] = BEGIN
    assert world.until(100).done == []
    assert why in world.look().why


def test_a_mail_that_nobody_knows_to_have_arrived_ends_nothing() -> None:
    world = World()
    for _ in range(20):
        world.now += HOUR
        world.look(mailed=False)
    assert {what for _, what in world.done} == {"tell"}


def test_a_clock_that_was_wrong_ends_nothing() -> None:
    world = World()
    world.now = BEGIN + 9 * HOUR
    for when in (BEGIN - HOUR, world.now + HOUR):  # told before it was idle; told in the future
        world.notified[make_key(ROW, RULES)] = when
        assert world.look().what == "wait"


OVER = replace(ROW, hours=0, unused=None, ungranted=BEGIN)


@pytest.mark.parametrize(
    ("rules", "row", "hours", "done"),
    [
        # what is not used is told once, and ended after the notice where the site says so
        (RULES, ROW, 6, [(2, "tell"), (6, "stop")]),
        (replace(RULES, stop=False), ROW, 100, [(2, "tell")]),
        # what nobody granted ends in any case, and who may hold one idle needs a grant as well
        (RULES, OVER, 5, [(0.5, "tell"), (4.5, "stop"), (5, "stop")]),
        (replace(RULES, stop=False), OVER, 5, [(0.5, "tell"), (4.5, "stop"), (5, "stop")]),
        (RULES, replace(OVER, user="boss"), 5, [(0.5, "tell"), (4.5, "stop"), (5, "stop")]),
        (replace(RULES, protected={"minji"}), OVER, 5, []),
        (RULES, replace(OVER, user="(unknown)"), 5, []),
        (RULES, replace(OVER, unused=BEGIN), 5, [(0.5, "tell"), (4.5, "stop"), (5, "stop")]),
    ],
)
def test_what_is_told_and_ended(rules: Rules, row: Idle, hours: int, done: list[tuple[float, str]]) -> None:
    assert World(rules, row).until(hours).done == done


def test_who_is_granted_more_time_in_between_is_told_anew() -> None:
    world = World(row=OVER).until(4)
    world.row = replace(OVER, ungranted=BEGIN + 4 * HOUR)
    assert world.until(8.5).done == [(0.5, "tell"), (4.5, "tell"), (8.5, "stop")]


def test_each_reason_has_its_mail_and_its_words(tmp_path: Path) -> None:
    registry = Registry.model_validate({"users": [{"name": "minji", "uid": 20001, "email": "minji@example.org"}]})
    found = steps([OVER, replace(ROW, uuid="GPU-2", index="2")], RULES, NOBODY.get, BEGIN + 3 * HOUR)
    notices = plan_idle(found, registry, replace(RULES, stop=False), Ledger(tmp_path / "mails.jsonl"))
    letters = {one.template: one for one in notices.letters}
    assert {name: one.values["stop_hours"] for name, one in letters.items()} == {"idle": None, "ungranted": 4}
    assert letters["ungranted"].summary == "1 GPU held and not granted"
    idle, _, english, korean = terminal_words(found, RULES).splitlines()
    assert "GPU 0: your time with it is over" in english
    assert "4시간 뒤에도 점유 중이면" in korean
    assert "GPU 2: you hold it and have not used it" in idle
    found = steps([ROW, replace(ROW, index="3")], RULES, NOBODY.get, BEGIN + 3 * HOUR)
    words = terminal_words(found, RULES)
    assert "GPU 0, GPU 3: you hold it and have not used it for 2 hours" in words
    assert "4시간 뒤에도" in words
    assert "stopped" not in terminal_words(found, replace(RULES, stop=False))


def test_one_mail_for_all_of_an_address_and_nobody_twice(tmp_path: Path) -> None:
    users = [
        {"name": "minji", "uid": 20001, "email": "minji@example.org"},
        {"name": "junho", "uid": 20002, "email": "Minji@example.org"},
        {"name": "gildong", "uid": 20003},
    ]
    registry = Registry.model_validate({"users": users})
    rules = replace(RULES, people={"minji", "junho", "gildong"})
    rows = [replace(ROW, user=name, uuid=f"GPU-{name}") for name in ("minji", "junho", "gildong")]
    found = steps(rows, rules, NOBODY.get, BEGIN + 3 * HOUR)
    ledger = Ledger(tmp_path / "mails.jsonl")
    notices = plan_idle(found, registry, rules, ledger)
    (letter,) = notices.letters
    assert letter.names == ("minji", "junho")
    assert len(letter.keys) == 2
    assert letter.values["stop_hours"] == 4
    assert notices.without_address == ("gildong",)
    ledger.begin(letter, "somebody")  # cut off here: whether it went out is not known
    again = plan_idle(found, registry, rules, Ledger(tmp_path / "mails.jsonl"))
    assert again.letters == ()
    assert [entry.state for entry in again.uncertain] == [State.INTENT, State.INTENT]


@pytest.mark.parametrize(
    "change",
    [{"node": "gpu2"}, {"uuid": "GPU-2"}, {"user": "junho"}, {"unused": BEGIN - 1}, {"ungranted": BEGIN}],
    ids=str,
)
def test_what_somebody_was_told_of_is_that_alone(change: dict[str, Any]) -> None:
    """Another GPU, another node and another time that it is not used are each another mail, and another notice."""
    assert make_key(replace(ROW, **change), RULES) != make_key(ROW, RULES)


@pytest.mark.holds(
    "who was not mailed at all is not told by their terminal", "whose mail did not go out is not told by their terminal"
)
def test_terminals_say_what_a_mail_said() -> None:
    """Whose mail did not go out was not told: their terminal promises no end that does not come."""
    registry = Registry.model_validate({"users": [{"name": "minji", "uid": 20001, "email": "minji@example.org"}]})
    session: Any = SimpleNamespace(site=SimpleNamespace(registry=SimpleNamespace(registry=registry)))
    found = steps([ROW], RULES, NOBODY.get, BEGIN + 3 * HOUR)
    letter: Any = SimpleNamespace(keys=(make_key(ROW, RULES),))

    def tells(*deliveries: Any) -> Any:
        jobs = _jobs({}, _messages(session, found, RULES, deliveries))
        return {node: len(given["tell"]) for node, given in jobs.items()}

    assert tells() == {}
    assert tells(SimpleNamespace(letter=letter, good=False)) == {}
    assert tells(SimpleNamespace(letter=letter, good=True)) == {"gpu1": 1}

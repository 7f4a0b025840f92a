"""What is said to be right was looked at, and what was not is listed."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import collect, trial

from gpuadmin.actions.diagnose import TRIAL
from gpuadmin.common.causes.cause import Cause
from gpuadmin.common.causes.judge import CAUSES
from gpuadmin.diagnosis.bundle import PERSONS, QUOTING, TAKEN
from gpuadmin.diagnosis.looked import OF_A_PERSON, THINGS, list_sound_things, list_tried_hosts, list_unseen


def host(**facts: Any) -> dict[str, Any]:
    return {"node": True, "unknown": {}, "late": [], **facts}


def session(**codes: str) -> dict[str, Any]:
    return {"steps": {name: {"code": code, "words": ""} for name, code in codes.items()}, "done": True}


def test_every_part_has_a_thing() -> None:
    parts = {thing.part for thing in THINGS} - {None}
    assert parts | {"mount", "pam"} == set(collect.HOST) | set(collect.PERSON)
    assert set(OF_A_PERSON) | {"pam"} == set(collect.PERSON)
    assert {thing.step for thing in THINGS} - {None} == set(trial.STEPS)


def test_what_was_not_looked_at_is_not_right() -> None:
    known = {"node1": host(memory={}, home={}), "node2": host(memory={}, unknown={"home": "did not end"})}
    assert list_sound_things("minji", known, []) == ["users.yml", "memory"]
    assert list_sound_things(None, known, []) == ["memory"]
    assert list_sound_things("minji", known, [Cause("memory-kills", "x", "y")]) == ["users.yml"]
    assert list_sound_things("minji", {}, []) == [], "no host answered"
    lines = list(list_unseen("minji", known, {"node3": "is off"}, None))
    assert lines[:2] == ["node3: is off", "node2: home: did not end"]


def test_a_session_that_went_wrong_somewhere_is_right_nowhere() -> None:
    known = {"node1": host(trial=session(home="", command="")), "node2": host(trial=session(home="", command="ended"))}
    assert list_sound_things(None, known, []) == ["a file in the home", "a session by sshd's rules of PAM"]
    assert list_tried_hosts(known | {"node3": host(trial={"steps": {}, "done": False})}) == ["node1", "node2"]


@pytest.mark.holds("what follows from a refusal of PAM's is not right")
def test_a_session_of_somebody_whom_pam_refuses_is_not_right() -> None:
    known = {"node1": host(trial=session(), sessions={"manager": "active"})}
    assert {"a session by sshd's rules of PAM", "user manager"} <= set(list_sound_things("minji", known, []))
    found = list_sound_things("minji", known, [Cause("password-aged", "x", "y")])
    assert not {"a session by sshd's rules of PAM", "user manager"} & set(found)


def test_nothing_is_right_of_somebody_whom_nobody_knows() -> None:
    known = {"node1": host(account={}, keys={}, home={}, sessions={"manager": "inactive"}, memory={})}
    assert list_sound_things("minij", known, [Cause("not-registered", "x", "y")]) == ["memory"]


def test_a_user_manager_that_does_not_run_is_not_right() -> None:
    idle, runs = host(sessions={"manager": "inactive"}), host(sessions={"manager": "active"})
    assert "user manager" not in list_sound_things("minji", {"node1": idle}, [])
    assert "user manager" in list_sound_things("minji", {"node1": idle, "node2": runs}, [])
    assert any("it does not run" in line for line in list_unseen("minji", {"node1": idle}, {}, None))


def test_a_daemon_that_was_not_asked_is_not_right() -> None:
    asleep = host(containers={"asked": False, "ended": [], "running": 0})
    assert list_sound_things(None, {"node1": asleep}, []) == []
    assert any("none runs" in line for line in list_unseen("minji", {"node1": asleep}, {}, None))


def test_what_a_session_prints_is_in_no_archive() -> None:
    assert [code for code in CAUSES if code.startswith("session") and not code.startswith(QUOTING)] == []
    assert "trial" in PERSONS
    assert "trial" not in TAKEN


def test_the_plan_says_how_long_it_takes() -> None:
    assert f"at most {trial.SECONDS:g} seconds" in TRIAL

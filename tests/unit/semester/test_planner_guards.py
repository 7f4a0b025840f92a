"""Who stays although a reset was begun, whose scratch is whose, and contradictions: each by itself."""

from dataclasses import replace
from typing import Any

import pytest

from gpuadmin.errors import RefusedError
from gpuadmin.results import HostResult
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.planner import decide, narrowed
from tests.support.semester_facts import BACKUP, MINJI, facts, home, registry, settings

pytestmark = pytest.mark.holds(
    "a contradiction is looked for in a decision that was narrowed",
    "a contradiction is looked for in each decision",
    "scratch of another uid is not theirs",
    "scratch of who stays by now is left",
    "who is not registered any more stays",
    "who was extended meanwhile stays",
    "whose uid changed meanwhile stays",
)


JIHO = {"name": "jiho", "uid": 20002}
FIRST = 2**31 + 65536  # of minji's subordinate ids


def item(user: str, uid: int) -> dict[str, Any]:
    return {"directory": "/tmp", "name": "x", "uid": uid, "inode": 1, "user": user, "kind": "file"}


@pytest.mark.parametrize(
    ("uid", "goes"),
    [(20001, True), (FIRST, True), (FIRST + 65535, True), (FIRST - 1, False), (FIRST + 65536, False), (0, False),
     (20002, False), (999, False)],
)  # fmt: skip
def test_scratch_is_theirs_by_its_owner(uid: int, goes: bool) -> None:
    """Whatever a host says whose it is: the number decides."""
    decision = decide(settings(), registry(MINJI), facts({}, {"node1": [item("minji", uid)]}), backup=BACKUP)
    assert bool(decision.scratch) is goes


def test_scratch_of_who_stays_is_left() -> None:
    found = facts({}, {"node1": [item("minji", 20001), item("jiho", 20002)]})
    decision = decide(settings("jiho"), registry(MINJI, JIHO), found, backup=BACKUP)
    assert [one["user"] for one in decision.scratch["node1"]] == ["minji"]


LATER: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], str]] = {
    "not registered any more": ([], (), "is not in users.yml any more"),
    "extended": ([{**MINJI, "stays": "2026-2"}], (), "extended beyond"),
    "kept": ([MINJI], ("minji",), "--keep"),
    "another uid": ([{**MINJI, "uid": 20009}], (), "has uid 20009 now"),
}


@pytest.mark.parametrize(("users", "keep", "why"), LATER.values(), ids=LATER.keys())
def test_who_stays_by_now(users: list[dict[str, Any]], keep: tuple[str, ...], why: str) -> None:
    """With everything of theirs; unless their home is gone already."""
    found = facts({"minji": home(20001)}, {"node1": [item("minji", 20001)]})
    decision = decide(settings(), registry(MINJI, JIHO), found, backup=BACKUP)
    people = registry(*users, JIHO)
    result = narrowed(decision, settings(), people, keep=keep)
    assert result.names == ("jiho",)
    assert why in result.staying["minji"]
    assert result.scratch == {}
    assert "minji" in narrowed(decision, settings(), people, keep=keep, wiped=["minji"]).names


def test_two_who_share_a_uid_stop_everything() -> None:
    """By whatever mistake: one of them leaves and the other stays, and nothing tells their files apart."""
    people = registry(MINJI, {**JIHO, "uid": 20001})
    with pytest.raises(RefusedError, match="uid 20001 is minji's and jiho's"):
        decide(settings("jiho"), people, facts({}), backup=BACKUP)
    decision = decide(settings(), registry(MINJI), facts({}), backup=BACKUP)
    later = replace(decision, staying={"jiho": "protected"})
    with pytest.raises(RefusedError, match="uid 20001 is minji's and jiho's"):
        narrowed(later, settings("jiho"), people)


@pytest.mark.holds("what a host said before it failed is not what is known of it")
def test_what_a_host_said_before_it_failed_is_not_known() -> None:
    """What it had not said yet would be taken for what it does not have."""
    said = {"facts": {"homes": {}, "backups": [], "processes": {}}}
    results = {
        "storage1": HostResult("failed", message="is full", reports=said),
        "node1": HostResult("ok", reports=said),
    }
    found = Facts.of(results, ("storage1", "node1", "node2"), "2026-12-31T00:00:00+00:00")
    assert (found.silent, found.hosts["node1"]) == (("storage1", "node2"), said["facts"])
    assert found.problems == {"storage1": "is full", "node2": "did not answer"}

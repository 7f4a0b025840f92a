"""Accounts of people who are being renumbered are left alone."""

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.renumbered import PLAN
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

USERS = [
    {"name": name, "uid": uid, "gid": uid, "home": f"/home/{name}"} for name, uid in (("minji", 20001), ("jiho", 20002))
]


def plan(host: Host, text: str) -> None:
    path = Path(host.path(host.state)) / PLAN
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.holds("who is renumbered stays closed")
def test_who_is_being_renumbered_is_left_alone_and_the_others_are_not(host: Host) -> None:
    converge(Request(Settings(), USERS), host)
    shadow = Path(host.path("etc/shadow"))
    shadow.write_text(shadow.read_text().replace("minji:*:", "minji:!*:"))
    plan(host, json.dumps({"people": [{"name": "minji"}]}))
    locked = [{**one, "locked": True} for one in USERS]
    found = converge(Request(Settings(), locked), host).plan
    assert "by gpuadmin renumber until" in str(found.users["minji"].problem)
    assert found.users["jiho"].operations == ["lock"]
    assert "minji:!*:" in shadow.read_text()


@pytest.mark.parametrize("person", [{"name": "kim", "was": "minji"}, {"name": "minji", "was": "MinJi"}])
def test_who_gets_another_name_is_left_alone_by_both(host: Host, person: dict[str, str]) -> None:
    converge(Request(Settings(), USERS), host)
    plan(host, json.dumps({"people": [person]}))
    found = converge(Request(Settings(), [{**one, "locked": True} for one in USERS]), host).plan
    assert "by gpuadmin renumber until" in str(found.users["minji"].problem)


@pytest.mark.holds("no newcomer gets an id that a file of somebody in a renumbering may still have")
@pytest.mark.parametrize(("old", "made"), [(20002, False), (20003, True), (20009, True)])
def test_no_newcomer_gets_an_id_that_a_file_may_still_have(host: Host, old: int, made: bool) -> None:
    """Their files would become the other's at the next boot. Who has it already was let in: nothing of it is left."""
    converge(Request(Settings(), [USERS[0]]), host)
    people = [{"name": "sora", "old": old, "new": 20003, "group": 20003}, {"name": "hana", "old": 20001, "new": 20004}]
    plan(host, json.dumps({"people": people}))
    found = converge(Request(Settings(), USERS), host).plan
    words = "uid 20002 was sora's until gpuadmin renumber, which has not ended: a file may still have it"
    assert found.users["jiho"].problem == (None if made else words)
    assert ("jiho:" in Path(host.path("etc/passwd")).read_text()) is made
    assert found.users["minji"].problem is None


def test_the_verb_that_keeps_somebody_out_is_named(host: Host) -> None:
    converge(Request(Settings(), USERS), host)
    plan(host, json.dumps({"people": [{"name": "minji"}], "verb": "move-homes"}))
    found = converge(Request(Settings(), [{**one, "locked": True} for one in USERS]), host).plan
    assert "gpuadmin move-homes goes on" in str(found.users["minji"].problem)


def test_a_damaged_plan_opens_nobody(host: Host) -> None:
    plan(host, "[")
    with pytest.raises(NodeError, match="damaged"):
        converge(Request(Settings(), USERS), host)

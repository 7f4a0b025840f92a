"""Whose homes are moved, which becomes the main one, and who is left: tables, and what holds for all clusters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.takeover.adoption.home_plan import Cluster, Decision, decide

UID = 20001


def home(size: int = 1000, inode: int = 7, **more: Any) -> dict[str, Any]:
    return {"device": 1, "inode": inode, "files": 2, "bytes": size, "entries": 3, "before": [], "odd": [], **more}


def node(**homes: dict[str, Any]) -> dict[str, Any]:
    """What a node says that has these homes."""
    return {
        "homes": homes, "uids": dict.fromkeys(homes, UID), "problems": {}, "elsewhere": {}, "busy": {}, "closed": [],
        "host_key": "ssh-ed25519 A", "note": "", "no_login": "",
    }  # fmt: skip


def storage(**more: Any) -> dict[str, Any]:
    found = {
        "free": 10**9, "there": {}, "parts": [], "problems": {}, "uids": {}, "busy": {}, "closed": [], "reached": {},
    }  # fmt: skip
    return {**found, **more}


def part(host: str, step: str = "aside", *, placed: bool = True, main: bool = True) -> dict[str, Any]:
    return {"name": "minji", "uid": UID, "host": host, "main": main, "there": False, "device": 1, "inode": 7,
            "step": step, "checksum": "c", "files": 2, "bytes": 1000, "placed": placed}  # fmt: skip


def found(nodes: dict[str, Any], there: dict[str, Any] | None = None, **more: Any) -> Decision:
    return decide({"minji": UID}, Cluster(nodes, "nas1", there or storage(), **more))


def homes_of(decision: Decision) -> dict[str, bool]:
    return {one.host: one.main for one in decision.fetch}


@pytest.mark.holds("nothing is planned for a node that root cannot log in to")
@pytest.mark.holds("nothing is planned for a node that the storage host does not reach")
@pytest.mark.parametrize(
    ("node_says", "reached", "why"),
    [
        ({}, {"gpu1": "ssh-ed25519 A"}, None),
        ({}, {}, None),
        ({"no_login": "lets root in by no key"}, {"gpu1": "ssh-ed25519 A"}, "gpu1: lets root in by no key"),
        ({}, {"gpu1": ""}, "gpu1: nas1 gets no ssh host key at 127.0.0.1, port 22: gpuadmin_address"),
        ({}, {"gpu1": "ssh-ed25519 B"}, "gpu1: nas1 finds another host at 127.0.0.1: gpuadmin_address"),
    ],
)
def test_a_home_that_cannot_be_fetched_is_left(
    node_says: dict[str, Any], reached: dict[str, str], why: str | None
) -> None:
    nodes = {"gpu1": {**node(minji=home()), **node_says}, "gpu2": {**node(), "no_login": "has nobody's home"}}
    decision = found(nodes, storage(reached=reached), addresses={"gpu1": "127.0.0.1"})
    assert bool(decision.fetch) is (why is None)
    assert (why or "") in decision.left.get("minji", "")


def test_homes_of_an_automounter_are_named() -> None:
    assert found({"gpu1": {**node(), "note": "is an automounter's"}}).notes == ("gpu1: is an automounter's",)


TWO = {"gpu1": node(minji=home(5)), "gpu2": node(minji=home(9))}
UNTOUCHED = storage(there={"minji": {"kind": "untouched", "before": []}})
THEIRS = storage(there={"minji": {"kind": "theirs", "before": []}})


@pytest.mark.parametrize(
    ("nodes", "there", "main", "expected"),
    [
        ({"gpu1": node(minji=home())}, None, {}, {"gpu1": True}),
        (TWO, None, {}, {"gpu1": False, "gpu2": True}),
        ({"gpu1": node(minji=home(5)), "gpu2": node(minji=home(5))}, None, {}, {"gpu1": True, "gpu2": False}),
        (TWO, None, {"minji": "gpu1"}, {"gpu1": True, "gpu2": False}),
        ({"gpu1": node(minji=home()), "gpu2": node()}, THEIRS, {}, {"gpu1": False}),
        ({"gpu1": node(minji=home())}, UNTOUCHED, {}, {"gpu1": True}),
        ({"gpu1": node()}, None, {}, {}),
    ],
)  # fmt: skip
def test_which_home_becomes_the_main_one(nodes: Any, there: Any, main: Any, expected: dict[str, bool]) -> None:
    decision = found(nodes, there, main=main)
    assert (homes_of(decision), decision.left) == (expected, {})


def changed(answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**answer, **more}


HAS = node(minji=home())


@pytest.mark.holds("manifests have uids: a person has one everywhere")
@pytest.mark.holds("a home that holds another file system is not moved in part")
@pytest.mark.holds("a home goes where nothing is")
@pytest.mark.holds("nobody gets a home that is larger than it may be")
@pytest.mark.holds("what does not fit is not begun")
@pytest.mark.parametrize(
    ("nodes", "there", "more", "words"),
    [
        ({"gpu1": changed(HAS, uids={"minji": 1001})}, None, {}, "gpu1: has uid 1001 there, and 20001 in users.yml: "
         "gpuadmin renumber minji"),
        ({"gpu1": HAS, "gpu2": changed(HAS, uids={"minji": 1001})}, None, {}, "gpu2: has uid 1001"),
        ({"gpu1": changed(HAS, uids={})}, None, {}, "no account"),
        ({"gpu1": HAS}, storage(uids={"minji": 3000}), {}, "nas1: has uid 3000"),
        ({"gpu1": HAS}, storage(problems={"minji": "their home belongs to uid 0, not 20001"}), {}, "to uid 0"),
        ({"gpu1": changed(node(), problems={"minji": "cannot be opened"}, uids={"minji": UID})}, None, {},
         "gpu1: cannot"),
        ({"gpu1": node(minji=home(odd=["'x' is a subvolume"]))}, None, {}, "gpu1: 'x' is a subvolume"),
        ({"gpu1": changed(HAS, elsewhere={"minji": "/data/minji"})}, None, {}, "/data/minji"),
        ({"gpu1": changed(HAS, host_key="")}, None, {}, "ssh-keygen -A"),
        ({"gpu1": HAS}, storage(free=999), {}, "no room"),
        ({"gpu1": HAS}, None, {"limits": {"minji": 999}}, "limits.home"),
        ({"gpu1": node(minji=home(9, before=["before-gpu2"])), "gpu2": node(minji=home(5))}, None, {},
         "gpu1: their home there has a before-gpu2"),
        ({"gpu1": HAS}, storage(there={"minji": {"kind": "theirs", "before": ["before-gpu1"]}}), {},
         "nas1: their home"),
        ({"gpu1": HAS}, THEIRS, {"main": {"minji": "gpu1"}}, "--main does not replace it"),
        ({"gpu1": HAS, "gpu2": node()}, None, {"main": {"minji": "gpu2"}}, "gpu2 has no home"),
        ({"gpu1": HAS}, storage(parts=[part("gpu1")]), {}, ""),
    ],
)  # fmt: skip
def test_who_is_left_and_why(nodes: Any, there: Any, more: Any, words: str) -> None:
    decision = found(nodes, there, **more)
    assert decision.fetch == ()
    if words:
        assert words in decision.left["minji"]
    else:
        assert decision.left == {}


def test_what_was_cut_off_is_finished() -> None:
    decision = found({"gpu1": HAS}, storage(parts=[part("gpu1", "changing")]))
    assert [(one.host, one.checksum) for one in decision.finish] == [("gpu1", "c")]
    assert decision.fetch == ()


def test_what_is_copied_already_needs_no_room() -> None:
    assert homes_of(found({"gpu1": HAS}, storage(free=0, parts=[part("gpu1", "copied", placed=False)]))) == {
        "gpu1": True
    }


NAMES = st.sampled_from(["minji", "jiho", "eve"])
HOMES = st.builds(home, st.integers(0, 2000), before=st.lists(st.sampled_from(["before-gpu1", "before-gpu2"])),
                  odd=st.lists(st.just("odd"), max_size=1))  # fmt: skip
NODES = st.builds(
    lambda homes, uids: {**node(**homes), "uids": uids},
    st.dictionaries(NAMES, HOMES), st.dictionaries(NAMES, st.sampled_from([UID, UID + 1])),
)  # fmt: skip
KINDS = st.fixed_dictionaries({"kind": st.sampled_from(["none", "untouched", "theirs"]), "before": st.just([])})
STORAGES = st.builds(
    lambda free, there: storage(free=free, there=there), st.integers(0, 5000), st.dictionaries(NAMES, KINDS)
)


@given(st.fixed_dictionaries({"gpu1": NODES, "gpu2": NODES, "gpu3": NODES}), STORAGES)
def test_of_all_homes_of_a_person_all_go_or_none_and_at_most_one_is_the_main_one(nodes: Any, there: Any) -> None:
    people = dict.fromkeys(["minji", "jiho", "eve"], UID)
    decision = decide(people, Cluster(nodes, "nas1", there))
    assert sum(one.bytes for one in decision.fetch) <= there["free"]
    for name in people:
        has = {host for host, answer in nodes.items() if name in answer["homes"]}
        own = [one for one in decision.fetch if one.name == name]
        assert {one.host for one in own} in (set(), has)
        assert len(own) == len({one.host for one in own})
        if own:
            kind = there["there"].get(name, {"kind": "none"})["kind"]
            assert sum(one.main for one in own) == (0 if kind == "theirs" else 1)
            assert name not in decision.left
            assert all(nodes[host]["uids"].get(name) == UID for host in has)
        elif has:
            assert name in decision.left, "nobody is left without a word"

"""Who is renumbered on which host, by what all of them say."""

from typing import Any

import pytest

from gpuadmin.power import Decision
from gpuadmin.takeover.plans.renumber_plan import agree, notes, plan, steps
from gpuadmin.takeover.plans.renumbering import Moves, assumed, begun, decide, find_strange, in_queue, reboots, shut_out

WANTED = {"minji": 20001, "jiho": 20002}


def host(has: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    """A host's answer: who has which uid; whoever has another than they are to have is renumbered."""
    has = has or {}
    people = {name: [uid, WANTED[name]] for name, uid in has.items() if uid != WANTED.get(name, uid)}
    for name in more.get("problems", {}):
        people.pop(name, None)
    return {
        "has": has,
        "people": people,
        "problems": {},
        "under_way": False,
        "whole": False,
        "closed": {},
        "written": [],
        "renamed": {},
        "kept": {},
        "staying": [],
        "rest": False,
        **more,
    }


def test_each_host_has_its_own_moves() -> None:
    seen = {"a": host({"minji": 1001, "jiho": 1002}), "b": host({"minji": 20001, "jiho": 1001}), "c": host()}
    found = decide(seen, [], WANTED)
    assert found.hosts == {
        "a": {"minji": (1001, 20001), "jiho": (1002, 20002)},
        "b": {"jiho": (1001, 20002)},
    }
    assert found.people == ["jiho", "minji"]
    assert not agree(seen, found)


def test_who_is_in_the_way_on_one_host_stays_on_all() -> None:
    seen = {
        "a": host({"minji": 1001, "jiho": 1002}),
        "b": host({"minji": 1001, "jiho": 1002}, problems={"minji": "shares uid 1001"}),
    }
    found = decide(seen, [], WANTED)
    assert found.left == {"minji": "b: shares uid 1001"}
    assert {name for moves in found.hosts.values() for name in moves} == {"jiho"}


def test_who_would_get_ids_of_somebody_who_stays_stays_as_well() -> None:
    seen = {"a": host({"minji": 20002, "jiho": 20001}), "b": host({"minji": 20002}, problems={"minji": "has a grant"})}
    found = decide(seen, [], WANTED)
    assert found.hosts == {}
    assert found.left == {"minji": "b: has a grant", "jiho": "a: uid 20002 is still minji's there, who is left out"}


def test_files_on_the_storage_host_are_whose_all_nodes_say() -> None:
    seen = {"nas": host({"jiho": 1002}), "a": host({"minji": 1001}), "b": host({"minji": 1001})}
    assert assumed(seen, ["nas"], WANTED) == {"nas": {"minji": 1001}}


@pytest.mark.holds("whose files on the storage host are whose is not guessed")
def test_nodes_that_disagree_do_not_say_whose_files_the_storage_host_has() -> None:
    seen = {"nas": host(), "a": host({"minji": 1001}), "b": host({"minji": 1005})}
    assert assumed(seen, ["nas"], WANTED) == {}
    found = decide(seen, ["nas"], WANTED)
    assert found.left["minji"].startswith("nas: has no account there, and the nodes say 1001 on a, 1005 on b")
    assert found.hosts == {}


@pytest.mark.holds("nobody reaches a home while it changes hands")
def test_somebody_who_has_such_a_uid_on_another_host_reaches_the_home() -> None:
    seen = {"nas": host({"minji": 1001}), "a": host({"minji": 1001}), "b": {**host(), "has": {"sora": 1001}}}
    found = decide(seen, ["nas"], WANTED)
    assert found.left["minji"].startswith("nas: uid 1001 is sora's on b, who would reach")
    # without the network nothing of theirs is the same
    assert decide(seen, [], WANTED).left == {}
    # and who is kept out meanwhile reaches nothing
    seen["b"] = host({"jiho": 1001})
    assert decide(seen, ["nas"], WANTED).left == {}
    seen["b"]["problems"] = {"jiho": "has a grant"}
    assert set(decide(seen, ["nas"], WANTED).left) == {"minji", "jiho"}


@pytest.mark.holds("who is renumbered somewhere is kept out everywhere")
def test_who_is_kept_out_where() -> None:
    seen = {"a": host({"minji": 1001, "jiho": 20002}), "b": host({"minji": 20001, "sora": 1500}), "c": host()}
    assert decide(seen, [], WANTED).closed(seen) == {"a": {"minji": (1001, 20001)}, "b": {"minji": (20001, 20001)}}


@pytest.mark.holds("nobody has a home open while it changes hands")
def test_which_hosts_boot() -> None:
    seen = {"nas": host({"minji": 20001}), "a": host({"minji": 1001}), "b": host({"jiho": 20002}), "c": host()}
    assert reboots(seen, decide(seen, ["nas"], WANTED), ["nas"]) == ["a"]
    seen["nas"] = host({"minji": 1001})
    assert reboots(seen, decide(seen, ["nas"], WANTED), ["nas"]) == ["nas", "a", "b", "c"]
    seen["nas"] |= {"under_way": True, "whole": True}
    assert reboots(seen, Moves(), ["nas"]) == ["a", "b", "c"], "they have been sent away, and may be without homes"


@pytest.mark.parametrize(
    ("seen", "agreed"),
    [
        ({"a": host({"minji": 1001}), "b": host({"minji": 1001, "jiho": 1002})}, True),
        ({"a": host({"minji": 1001}), "b": host({"minji": 1005})}, False),
        # one of them has it right already: keeping the other's would be two
        ({"a": host({"minji": 1001}), "b": host({"minji": 20001})}, False),
        ({"a": host({"minji": 1001}), "b": host({"jiho": 1001})}, False),
        ({"a": host({"minji": 20001})}, False),
    ],
)
def test_whether_keeping_the_uids_is_the_cheap_way(seen: dict[str, Any], agreed: bool) -> None:
    assert agree(seen, decide(seen, [], WANTED)) == agreed


def test_what_is_shown() -> None:
    answer = host({"minji": 20002, "jiho": 20001}, trees={"/": {"minji": [1, 4096]}, "/local": {"minji": [2, 0]}})
    moves = decide({"a": answer}, [], WANTED).hosts["a"]
    assert steps(answer, moves) == [
        "jiho: uid and gid 20001 become 20002 (changes places); no files",
        "minji: uid and gid 20002 become 20001 (changes places); 1 file, 4.1 kB in /; 2 files, 0 bytes in /local",
    ]
    answer |= {"notes": ["/: 1 ACL names them"], "unknown": ["/odd (orangefs)"], "written": ["/etc/exports:3"]}
    assert notes("a", answer) == [
        "a: /: 1 ACL names them",
        "a: not looked at: /odd (orangefs)",
        "a: /etc/exports:3 names such a uid or name: look at it yourself",
    ]
    assert Moves().people == []
    names = {"minji": {"was": "Min.Ji", "homes": [["/home/Min.Ji", "/home/minji"]], "left": []}}
    answer |= {"renamed": names}
    assert steps(answer, {"minji": (20001, 20001), "jiho": (20001, 20002)}) == [
        "minji: Min.Ji becomes minji; home /home/Min.Ji becomes /home/minji",
        "jiho: uid and gid 20001 become 20002; no files",
    ]


CLOSED = {"minji": [1001, 20001]}


def test_who_was_closed_for_nothing_is_opened_again() -> None:
    """A run was killed before it changed anything, and users.yml has the old uid again."""
    seen = {"a": host({"sora": 1500}, closed=CLOSED), "b": host({"jiho": 1002}, closed={"jiho": [1002, 20002]})}
    assert shut_out(seen, decide(seen, [], WANTED)) == {"a": ["minji"]}, "jiho is closed again by this run"


@pytest.mark.holds("nobody is opened on one host who is half renumbered on another")
def test_who_was_begun_elsewhere_is_not_opened() -> None:
    seen = {"a": host({"minji": 1001}, closed=CLOSED), "b": host({"minji": 1001}, under_way=True)}
    moves = decide(seen, [], WANTED)
    assert begun(seen) == {"minji": 20001}
    assert shut_out(seen, moves) == {}
    seen["a"]["problems"] = {"minji": "shares uid 1001"}
    assert shut_out(seen, decide(seen, [], WANTED)) == {}


def test_what_was_decided_for_a_host_without_accounts_holds_when_some_nodes_are_done() -> None:
    seen = {"nas": host(closed=CLOSED), "a": host({"minji": 20001}, under_way=True), "b": host({"minji": 1001})}
    assert assumed(seen, ["nas"], WANTED) == {"nas": {"minji": 1001}}
    for done in ({"closed": CLOSED}, {"under_way": True}):
        seen["nas"] = {**host(**done), "people": CLOSED}
        assert decide(seen, ["nas"], WANTED).left == {}


@pytest.mark.holds("a job in the queue keeps its uid")
@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"minji": 2, "jiho": 0}, "has 2 jobs in the queue: cancel them (scancel -u minji)"),
        ({"1001": 1}, "has 1 job in the queue: cancel it (scancel -u 1001)"),
        ({"minji": 1, "20001": 1}, "has 2 jobs in the queue: cancel them (scancel -u 20001,minji)"),
    ],
)
def test_jobs_of_the_queue_are_in_the_way(jobs: dict[str, int], words: str) -> None:
    seen = {"a": host({"minji": 1001}), "b": host({"minji": 20001, "jiho": 20002})}
    found = decide(seen, [], WANTED, jobs)
    assert (found.left, found.hosts) == ({"minji": words}, {})
    assert in_queue(seen, ["minji"], {"sora": 4, "20002": 1}) == {}
    assert decide(seen, [], WANTED, {"jiho": 3}).left == {}, "who stays as they are may ask for what they like"


@pytest.mark.holds("no host makes up a uid for the others unseen")
def test_what_one_host_alone_has_begun_is_shown() -> None:
    """All hosts follow what one has begun: a captured one gives somebody any uid."""
    begun_there = host(
        {"minji": 20001}, under_way=True, problem="", people={"minji": [20001, 31337], "jiho": [1002, 20002]}
    )
    (words,) = find_strange({"a": host({"minji": 20001}), "b": begun_there}, WANTED)
    assert words.startswith("b says that it has begun to give minji uid 31337, and users.yml says 20001")
    shown = plan({"b": begun_there}, Moves(), ["b"], {}, Decision((), {}), [words])
    assert words in shown.warnings

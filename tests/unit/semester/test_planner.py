"""The decision of a reset: what is not clearly somebody's who leaves is kept. Tables, and whatever hypothesis finds."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import making
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuadmin.config.fields import RESERVED_NAMES
from gpuadmin.config.schema import Registry, Settings
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.results import HostResult
from gpuadmin.semester import planner, plans, refusals
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.planner import Decision, Leaver, backup_name, decide, narrowed, slug, with_facts
from tests.support.semester_facts import AT, BACKUP, MINJI, facts, home, registry, settings

pytestmark = pytest.mark.holds(
    "a contradiction is looked for in a decision that was narrowed",
    "a contradiction is looked for in each decision",
    "scratch of another uid is not theirs",
    "scratch of who stays by now is left",
    "who is not registered any more stays",
    "who was extended meanwhile stays",
    "whose uid changed meanwhile stays",
)

# the person, the home that is found -> whether it goes; a word of why not
HOMES: dict[str, tuple[dict[str, Any], dict[str, Any], bool, str]] = {
    "hers": (MINJI, {"minji": home(20001)}, True, ""),
    "none": (MINJI, {}, False, ""),
    "another owner": (MINJI, {"minji": home(20002)}, False, "belongs to uid 20002"),
    "root's": (MINJI, {"minji": home(0)}, False, "belongs to uid 0"),
    "a link": (MINJI, {"minji": home(20001, "symbolic link")}, False, "symbolic link"),
    "a file": (MINJI, {"minji": home(20001, "other")}, False, "not a directory"),
    "mounted": (MINJI, {"minji": home(20001, problem="/x is mounted inside")}, False, "mounted inside"),
    "another name": (MINJI, {"minji2": home(20001)}, False, ""),
}


@pytest.mark.parametrize(("user", "homes", "goes", "why"), HOMES.values(), ids=HOMES.keys())
def test_which_home_goes(user: dict[str, Any], homes: dict[str, Any], goes: bool, why: str) -> None:
    decision = decide(settings(), registry(user), facts(homes), backup=BACKUP)
    assert decision.names == ("minji",)
    assert [one.name for one in decision.wiped] == (["minji"] if goes else [])
    if why:
        assert why in decision.kept["minji"]
    if "minji2" in homes:
        assert "nobody in users.yml" in decision.kept["minji2"]


COPY, ASIDE = "minji.restored-20261221T010203Z", "minji.before-20261221T010203Z"
JIHO_STAYS = {"name": "jiho", "uid": 20002, "stays": "2026-2"}
LEFT = {"name": "seo", "uid": 20003}


def test_what_restores_made_goes_with_the_home_of_its_owner() -> None:
    homes = {
        "minji": home(20001, of="minji"), COPY: home(20001, of="minji"), ASIDE: home(20001, of="minji"),
        "jiho.before-20261221T010203Z": home(20002, of="jiho"), "seo.before-20261221T010203Z": home(20003, of="seo"),
        "stranger.before-20261221T010203Z": home(20001, of="stranger"),
    }  # fmt: skip
    people = registry(MINJI, JIHO_STAYS, retired=({**LEFT, "removed": "2026-06-30"},))
    decision = decide(settings(), people, facts(homes), backup=BACKUP)
    assert [one.directories for one in decision.wiped] == [("minji", ASIDE, COPY)]
    assert {name: reason.partition(":")[0] for name, reason in decision.kept.items()} == {
        "jiho.before-20261221T010203Z": "jiho's, who stays",
        "seo.before-20261221T010203Z": "of a removed account",
        "stranger.before-20261221T010203Z": "nobody in users.yml has this name (uid 20001)",
    }
    steps = plans.wipe(decision, ["storage1"], facts(homes)).steps
    assert [step.action.split(" ")[1] for step in steps] == ["minji", ASIDE, COPY]
    # without a home they go as well
    del homes["minji"]
    assert [one.directories for one in with_facts(decision, facts(homes)).wiped] == [(ASIDE, COPY)]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (home(20002, of="minji"), "belongs to uid 20002, not to minji"),
        (home(0, of="minji"), "belongs to uid 0"),
        (home(20001, "symbolic link", of="minji"), "symbolic link"),
        (home(20001, problem="/x is mounted inside", of="minji"), "mounted inside"),
    ],
)
def test_a_name_alone_proves_nothing(found: dict[str, Any], why: str) -> None:
    homes = {"minji": home(20001, of="minji"), COPY: found}
    decision = decide(settings(), registry(MINJI), facts(homes), backup=BACKUP)
    assert [one.directories for one in decision.wiped] == [("minji",)]
    assert why in decision.kept[COPY]
    assert why in with_facts(decision, facts({COPY: found})).kept[COPY]


def test_what_a_node_could_not_look_at_is_kept_and_said() -> None:
    reported = facts({}, {"node1": []})
    scratch = {"items": [], "problems": {"/tmp: minji": "has 5 entries there"}}
    odd = replace(reported, hosts={**reported.hosts, "node1": {"at": AT, "processes": {}, "scratch": scratch}})
    assert decide(settings(), registry(MINJI), odd, backup=BACKUP).kept == {"node1: /tmp: minji": "has 5 entries there"}


def test_nothing_beside_a_home_goes_that_is_not_verified() -> None:
    homes = {name: home(20001, of="minji") for name in ("minji", COPY)}
    saved = {"uid": 20001, "verified": AT, "files": 1, "bytes": 1}
    decision = decide(settings(), registry(MINJI), facts(homes), backup=BACKUP)
    for harm in ({"verified": None}, {"uid": 20002}):
        sets = [{"name": BACKUP, "homes": {"minji": saved, COPY: {**saved, **harm}}}]
        with pytest.raises(RefusedError, match="restored-20261221T010203Z"):
            refusals.refuse_unbacked(decision, facts(homes, backups=sets))
    with pytest.raises(RefusedError, match="restored-20261221T010203Z"):
        refusals.refuse_unbacked(decision, facts(homes, backups=[{"name": BACKUP, "homes": {"minji": saved}}]))
    sets = [{"name": BACKUP, "homes": {"minji": saved, COPY: saved}}]
    refusals.refuse_unbacked(decision, facts(homes, backups=sets))


PEOPLE: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], str]] = {
    "protected": (MINJI, ("minji",), (), "protected"),
    "kept": (MINJI, (), ("minji",), "--keep"),
    "extended": ({**MINJI, "stays": "2026-2"}, (), (), "extended beyond"),
    "valid longer": ({**MINJI, "expires": "2027-01-01"}, (), (), "valid until"),
    "outside the range": ({"name": "minji", "uid": 1500}, (), (), "outside of people's range"),
}


@pytest.mark.parametrize(("user", "protected", "keep", "why"), PEOPLE.values(), ids=PEOPLE.keys())
def test_who_stays(user: dict[str, Any], protected: tuple[str, ...], keep: tuple[str, ...], why: str) -> None:
    decision = decide(
        settings(*protected), registry(user), facts({"minji": home(user["uid"])}), keep=keep, backup=BACKUP
    )  # fmt: skip
    assert decision.leaving == ()
    assert why in decision.staying["minji"]
    assert why in decision.kept["minji"]


def test_a_directory_s_people() -> None:
    people = registry({"name": "minji"}, {"name": "later"})
    reported = facts({"minji": home(20001)}, identities={"minji": 20001})
    decision = decide(settings(source="directory"), people, reported, backup=BACKUP)
    assert [(one.name, one.uid) for one in decision.wiped] == [("minji", 20001)]
    assert "no host knows the uid" in decision.staying["later"]


def test_a_slip_in_keep_and_retired_people() -> None:
    with pytest.raises(ConfigError, match="minjy"):
        decide(settings(), registry(MINJI), facts({}), keep=["minjy"], backup=BACKUP)
    gone = registry(MINJI, retired=({"name": "old", "uid": 20009, "removed": "2026-01-01"},))
    decision = decide(settings(), gone, facts({"old": home(20009)}), backup=BACKUP)
    assert "removed account" in decision.kept["old"]


def test_silent_hosts() -> None:
    decision = decide(settings(), registry(MINJI), facts(None), backup=BACKUP)
    assert decision.wiped == ()
    assert decision.silent == {"storage1": "timed out"}
    actions = [step.action for step in plans.backup(decision, ["storage1"], []).steps]
    assert actions[-1] == "which homes go is not known; read and verify them"


def test_contradictions_are_refused() -> None:
    leaver = Leaver("minji", 20001, 2**31, 65536)
    people = registry(MINJI, {"name": "jiho", "uid": 20002})
    for site, leaving, staying, words in (
        (settings(), (leaver,), {"minji": "kept"}, "both leaves and stays"),
        (settings("minji"), (leaver,), {}, "protected"),
        (settings(), (replace(leaver, uid=20002),), {"jiho": "x"}, "uid 20002"),
        (settings(), (leaver, replace(leaver, name="b")), {}, "uid 20001"),
    ):
        with pytest.raises(RefusedError, match=words):
            planner.refuse_contradiction(Decision("t", BACKUP, AT, leaving, staying), site, people)


@pytest.mark.holds("a plan from before the last look wipes nothing", "an old plan wipes nothing")
def test_old_plans_are_refused() -> None:
    decision = decide(settings(), registry(MINJI), facts({}), backup=BACKUP)
    now = datetime.fromisoformat(AT)
    refusals.refuse_stale(decision, facts({}), now + timedelta(minutes=5))
    with pytest.raises(RefusedError, match="too old"):
        refusals.refuse_stale(decision, facts({}), now + timedelta(hours=1))
    newer = replace(facts({}), at="2026-12-31T12:00:01+00:00")
    with pytest.raises(RefusedError, match="older than what is known"):
        refusals.refuse_stale(decision, newer, now + timedelta(minutes=1))
    refusals.refuse_stale(with_facts(decision, newer), newer, now.astimezone(UTC))


def backed_up(verified: str | None = "2026-12-31T12:05:00Z", uid: int = 20001, name: str = BACKUP) -> Facts:
    saved = {"name": name, "homes": {"minji": {"uid": uid, "verified": verified}}}
    return facts({"minji": home(20001)}, backups=[saved])


@pytest.mark.holds(
    "a home of another uid in the backup proves nothing",
    "a home that is not in the backup is not wiped",
    "a home that is not verified is not wiped",
    "without the decided backup nothing is wiped",
)
@pytest.mark.parametrize(
    ("reported", "words"),
    [
        (facts({"minji": home(20001)}), "no complete backup"),
        (backed_up(name="20250101T000000Z-x"), "no complete backup"),
        (backed_up(None), "not verified"),
        (backed_up(uid=20002), "not verified"),
        (facts({"minji": home(20001)}, backups=[{"name": BACKUP, "homes": {}}]), "not verified"),
    ],
)
def test_without_a_verified_backup(reported: Facts, words: str) -> None:
    decision = decide(settings(), registry(MINJI), reported, backup=BACKUP)
    with pytest.raises(RefusedError, match=words):
        refusals.refuse_unbacked(decision, reported)
    refusals.refuse_unbacked(decision, backed_up())


@pytest.mark.holds("who still runs something is not wiped")
def test_who_still_runs_something() -> None:
    reported = facts({}, {"node1": []})
    running = replace(reported, hosts={**reported.hosts, "node1": {"at": AT, "processes": {"minji": 3}}})
    decision = decide(settings(), registry(MINJI), running, backup=BACKUP)
    with pytest.raises(RefusedError, match="node1: minji"):
        refusals.refuse_running(decision, running)
    refusals.refuse_running(decision, reported)


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


NAME = st.from_regex(r"\A[a-z_][a-z0-9_-]{0,8}\Z").filter(
    lambda name: name not in RESERVED_NAMES and not name.startswith("systemd-")
)
HOSTILE = st.one_of(NAME, st.sampled_from(["..", ".", "", "-rf", "a\nb", "$(reboot)", "/etc", "*", "\udcff", "root"]))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Settings, Registry, Facts, list[str]]:
    names = draw(st.lists(NAME, min_size=1, max_size=6, unique=True))
    users = [
        {
            "name": name,
            "uid": 20000 + number,
            **draw(st.sampled_from([{}, {}, {"stays": "2026-2"}, {"expires": "2027-06-01"}, {"locked": True}])),
        }
        for number, name in enumerate(names)
    ]
    some = st.one_of(st.just([]), st.lists(st.sampled_from(names), unique=True, max_size=2))
    protected, keep = draw(some), draw(some)
    owners = st.one_of(st.integers(20000, 20007), st.sampled_from([0, 999, 29999]))
    uids = {user["name"]: user["uid"] for user in users}

    def owner(name: str) -> int:
        # mostly the person's own: a world in which nothing is anybody's tries nothing
        return draw(owners) if name not in uids or draw(st.integers(0, 3)) == 0 else int(uids[name])

    kinds = st.sampled_from(["directory"] * 6 + ["other", "symbolic link"])
    homes = {
        name: home(owner(name), draw(kinds))
        for name in [*names, *draw(st.lists(HOSTILE, max_size=4))] if draw(st.integers(0, 3))
    }  # fmt: skip
    homes |= {
        f"{name}.before-20261221T010203Z": home(owner(name), of=name)
        for name in [*names, "stranger"] if draw(st.integers(0, 3)) == 0
    }  # fmt: skip
    items = []
    for _ in range(draw(st.integers(0, 5))):
        user = draw(st.sampled_from([*names, *names, "nobody", "root"]))
        uid = draw(st.one_of(st.just(owner(user)), st.integers(2**31, 2**31 + 7 * 65536)))
        items.append({"directory": "/tmp", "name": "x", "uid": uid, "inode": 1, "user": user, "kind": "file"})
    reported = facts(homes, {"node1": items}) if draw(st.integers(0, 4)) else facts(None, {"node1": items})
    return settings(*protected), registry(*users), reported, keep


def test_the_worlds_that_are_tried_have_something_to_lose() -> None:
    """Else what is said of every decision is said of empty ones."""
    seen = {"worlds": 0, "homes": 0, "scratch": 0, "kept homes of leavers": 0, "stay": 0}

    @hypothesis_settings(max_examples=200, database=None, deadline=None, derandomize=True)
    @given(worlds())
    def look(world: tuple[Settings, Registry, Facts, list[str]]) -> None:
        site, people, reported, keep = world
        decision = decide(site, people, reported, keep=keep, backup=BACKUP)
        seen["worlds"] += 1
        seen["homes"] += bool(decision.wiped)
        seen["scratch"] += bool(decision.scratch)
        seen["kept homes of leavers"] += bool(set(decision.names) & set(decision.kept))
        seen["stay"] += bool(decision.staying)

    look()
    assert {name: count for name, count in seen.items() if count < seen["worlds"] / 10} == {}


@given(worlds())
def test_what_holds_for_every_decision(world: tuple[Settings, Registry, Facts, list[str]]) -> None:
    site, people, reported, keep = world
    decision = decide(site, people, reported, keep=keep, backup=BACKUP)
    by_name = {user.name: user for user in people.users}
    leaving = set(decision.names)
    # everybody is in exactly one list
    assert leaving | set(decision.staying) == set(by_name)
    assert leaving & set(decision.staying) == set()
    # protected, kept and extended ones never leave
    assert not any(site.is_protected(name) for name in leaving)
    assert leaving & set(keep) == set()
    assert all(by_name[name].stays is None and by_name[name].expires is None for name in leaving)
    # what goes is a directory of the very person's
    homes = reported.of_homes() or {}
    for one, name in decision.going:
        assert homes[name]["kind"] == "directory"
        assert homes[name]["uid"] == one.uid == by_name[one.name].uid
        assert name == one.name or homes[name]["of"] == one.name
    # every other home is kept, with a reason
    for name in homes:
        if name not in {name for _, name in decision.going} and not name.startswith("."):
            assert decision.kept[name]
    uids = {one.uid for one in decision.leaving}
    ranges = [range(one.subid_start, one.subid_start + one.subid_count) for one in decision.leaving]
    for items in decision.scratch.values():
        for item in items:
            assert item["user"] in leaving
            assert item["uid"] in uids or any(item["uid"] in one for one in ranges)
    # the journal gives back what it was given
    assert Decision.read(json.loads(json.dumps(decision.document()))) == decision


@given(worlds(), st.data())
def test_a_decision_only_ever_loses_people(
    world: tuple[Settings, Registry, Facts, list[str]], data: st.DataObject
) -> None:
    site, people, reported, keep = world
    decision = decide(site, people, reported, keep=keep, backup=BACKUP)
    later = data.draw(st.lists(st.sampled_from([user.name for user in people.users]), unique=True))
    wiped = data.draw(st.lists(st.sampled_from([*decision.names, "nobody"]), unique=True))
    left = [user for user in people.users if data.draw(st.booleans()) or user.name in later]
    smaller = Registry(users=left, retired=[])
    result = narrowed(decision, site, smaller, keep=later, wiped=wiped)
    assert set(result.names) <= set(decision.names)
    assert set(result.names) & set(later) <= set(wiped)
    assert set(wiped) & set(decision.names) <= set(result.names)
    for items in result.scratch.values():
        assert {item["user"] for item in items} <= set(result.names)
    fresh = with_facts(result, reported)
    assert set(fresh.names) == set(result.names)
    assert {one.name for one in fresh.wiped} <= {one.name for one in decision.wiped} | set(wiped)


@given(st.text(max_size=60))
def test_a_term_s_name_becomes_a_plain_one(name: str) -> None:
    plain = slug(name)
    assert plain == slug(plain)
    assert "/" not in plain
    assert not plain.startswith((".", "-"))
    assert making.NAME.match(backup_name("2026-12-21T01:02:03Z", f"reset-{plain}"))
    assert Journal(Path("/runs"), name).directory.parent == Path("/runs")

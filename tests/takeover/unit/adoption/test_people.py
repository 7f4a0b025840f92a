"""One person for each name, with one uid, whatever hosts say."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.config.schema import Settings, User
from gpuadmin.takeover.adoption.people import (
    address,
    by_uid,
    chosen_uids,
    docker_users,
    found_people,
    full_name,
    last_day,
    last_days,
    new_uids,
    people,
)
from gpuadmin.takeover.adoption.seen import Host
from gpuadmin.takeover.adoption.settings import id_ranges
from tests.support.adoptable import ANSWER, account, homes, host, keys
from tests.support.sites import public_key

SETTINGS = Settings.model_validate({"name": "x", "accounts": {"uid_first": 1000, "uid_last": 18999}})


def found(*hosts: Host, login: str = "root", server: str | None = None, docker: set[str] | None = None) -> Any:
    return people(hosts, SETTINGS, found_people(hosts, login, server, {}), docker)


def with_accounts(name: str, *accounts: dict[str, Any], **more: Any) -> Host:
    return host(name, accounts=list(accounts), **{"keys": {}, **more})


def uids(*hosts: dict[str, int], server: str | None = None) -> dict[str, int]:
    names = {name for one in hosts for name in one}
    given = {
        name: {f"h{place}": account(name, one[name]) for place, one in enumerate(hosts) if name in one}
        for name in names
    }
    return chosen_uids(given, server)


@pytest.mark.holds("no two people get one uid")
@pytest.mark.parametrize(
    ("hosts", "server", "chosen"),
    [
        ([{"a": 1001}, {"a": 1001}], None, {"a": 1001}),
        ([{"a": 1001}, {"a": 1002}, {"a": 1002}], None, {"a": 1002}),
        # where homes are, files are
        ([{"a": 1001}, {"a": 1002}], "h1", {"a": 1002}),
        # swapped: each gets one of the two
        ([{"a": 1001, "b": 1002}, {"a": 1002, "b": 1001}], None, {"a": 1001, "b": 1002}),
        # two have the same: the other gets a new one later
        ([{"a": 1001}, {"b": 1001}], None, {"a": 1001}),
        ([{"a": 1001, "b": 1003}, {"b": 1001}], None, {"a": 1001, "b": 1003}),
    ],
)
def test_which_uid_is_theirs(hosts: list[dict[str, int]], server: str | None, chosen: dict[str, int]) -> None:
    assert uids(*hosts, server=server) == chosen


def test_who_is_registered_keeps_their_uid() -> None:
    given = {"a": {"h": account("a", 1001)}, "b": {"h": account("b", 1002)}}
    assert chosen_uids(given, None, {"b": 1001}) == {"b": 1001}


_NAMES = st.sampled_from(["minji", "jiho", "seo", "yuna", "ham"])
_CLUSTERS = st.lists(st.dictionaries(_NAMES, st.integers(1000, 1005), max_size=5), min_size=1, max_size=5)


@settings(deadline=None)
@given(_CLUSTERS)
def test_everybody_has_one_uid_and_every_uid_one_name(cluster: list[dict[str, int]]) -> None:
    hosts = [
        with_accounts(f"h{place}", *(account(name, uid) for name, uid in one.items()))
        for place, one in enumerate(cluster)
    ]
    everybody = found(*hosts)
    users = everybody.users
    assert {user.name for user in users} == {name for one in cluster for name in one}
    assert len({user.uid for user in users}) == len(users)
    for user in users:
        mine = {one[user.name] for one in cluster if user.name in one}
        whose = {name for one in cluster for name, uid in one.items() if uid in mine}
        if len(mine) == 1 and whose == {user.name}:
            assert user.uid in mine, "who agrees everywhere and shares nothing keeps what they have"
        if user.uid not in mine:
            assert user.uid not in {uid for one in cluster for uid in one.values()}, "a new one is nobody's"
    # the same cluster in another order of hosts is the same site
    assert [(user.name, user.uid) for user in found(*reversed(hosts)).users] == [
        (user.name, user.uid) for user in users
    ]


def test_a_new_uid_is_above_all_that_anybody_has() -> None:
    assert new_uids(["x", "y"], {"a": 1001}, {1001, 1050}, SETTINGS) == {"x": 1051, "y": 1052}
    full = Settings.model_validate({"name": "x", "accounts": {"uid_first": 1000, "uid_last": 1002}})
    assert new_uids(["x", "y"], {}, {1002, 1000}, full) == {"x": 1001}, "gaps where there is nothing above"


def test_no_group_has_a_new_uid_as_its_gid() -> None:
    group = {"name": "lab", "gid": 1012, "members": []}
    everybody = found(
        with_accounts("a", account("ham", 1011)),
        with_accounts("b", account("dodam", 1011), groups=[group]),
    )
    assert {user.name: user.uid for user in everybody.users} == {"dodam": 1011, "ham": 1013}


@pytest.mark.holds("whoever adopt gives a uid gets none that somebody's directory has")
def test_no_directory_of_homes_has_a_new_uid() -> None:
    left = homes("left")
    left["entries"][0]["uid"] = 1012
    everybody = found(
        with_accounts("a", account("ham", 1011)),
        with_accounts("b", account("dodam", 1011), homes=[left]),
    )
    assert {user.name: user.uid for user in everybody.users} == {"dodam": 1011, "ham": 1013}


def test_who_is_no_person() -> None:
    everybody = found(
        with_accounts(
            "a",
            account("ubuntu", 1000),
            account("jenkins", 1015, shell="/usr/sbin/nologin"),
            account("boss", 1000),
            account("nobody", 65534),
            account("minji", 1001),
            account("web", 33),
        ),
        login="boss",
    )
    assert [user.name for user in everybody.users] == ["minji"]
    assert set(everybody.aside) == {"ubuntu", "jenkins", "boss"}


@pytest.mark.parametrize(
    ("name", "uid", "words"),
    [
        ("Park.J", 1007, "is not a user name"),
        ("git", 1007, "is a system account's name"),
        ("gpuusers", 1007, "admin account or group"),
        ("far", 70000, "knows none above 60000"),
        ("high", 30000, "outside 1000-18999"),
        ("{{x}}", 1007, "is not a user name"),
    ],
)
def test_who_cannot_be_in_users_yml(name: str, uid: int, words: str) -> None:
    everybody = found(with_accounts("a", account(name, uid)))
    assert everybody.users == []
    assert words in str(everybody.persons[name].refused)


@pytest.mark.holds("what one host says of somebody goes to no other")
@pytest.mark.parametrize(
    ("everywhere", "taken"),
    [({"a", "b"}, False), ({"b"}, True), ({"b", "away"}, False)],
)
def test_what_one_host_says_is_taken_where_no_other_is(everywhere: set[str], taken: bool) -> None:
    """Root of a captured host writes a key and an address for somebody: neither may go to the other hosts."""
    minji = account("minji", 1001, gecos="Kim,evil@example.org")
    hosts = [
        with_accounts("a", account("minji", 1001)),
        with_accounts("b", minji, keys={"minji": keys(public_key("x"))}),
    ]
    given = found_people(hosts, "root", None, {})
    (user,) = people(hosts, SETTINGS, given, None, everywhere=everywhere).users
    assert (bool(user.keys), bool(user.email)) == (taken, taken)


@pytest.mark.holds("what somebody has protected is made no person")
def test_what_is_protected_stays_protected() -> None:
    hosts = [with_accounts("a", account("backup2", 1200), account("minji", 1001))]
    accounts, _, aside = found_people(hosts, "root", None, {}, ["backup2"])
    assert (set(accounts), aside) == ({"minji"}, {"backup2": "gpuadmin.yml says so"})


def test_keys_of_all_hosts_but_none_that_two_have() -> None:
    one, two, both = (public_key(seed) for seed in ("1", "2", "both"))
    accounts = [account("minji", 1001), account("jiho", 1002)]
    everybody = found(
        with_accounts("a", *accounts, keys={"minji": keys(one, both), "jiho": keys(both)}),
        with_accounts("b", *accounts, keys={"minji": keys(one, two, "ssh-ed25519 nonsense {{x}}")}),
    )
    users = {user.name: user.keys for user in everybody.users}
    assert users == {"minji": [one], "jiho": []}
    assert {key.text: key.hosts for key in everybody.persons["minji"].keys.values()} == {one: ("a", "b"), two: ("b",)}
    assert [len(everybody.persons[name].shared_keys) for name in ("minji", "jiho")] == [1, 1]


@pytest.mark.holds("who is in users.yml stays as they are there")
def test_who_is_registered_stays_as_they_are() -> None:
    hosts = [with_accounts("a", account("minji", 1001), keys={"minji": keys(public_key("1"))})]
    registered = User.model_validate({"name": "minji", "uid": 1001, "email": "minji@example.org"})
    everybody = people(hosts, SETTINGS, found_people(hosts, "root", None, {}), None, {"minji": registered})
    assert everybody.persons["minji"].user is registered


def test_who_gets_no_uid_is_no_user() -> None:
    one = Settings.model_validate({"name": "x", "accounts": {"uid_first": 1011, "uid_last": 1011}})
    hosts = [with_accounts("a", account("ham", 1011)), with_accounts("b", account("dodam", 1011))]
    everybody = people(hosts, one, found_people(hosts, "root", None, {}), None)
    assert {name: (person.uid, person.refused) for name, person in everybody.persons.items()} == {
        "dodam": (1011, None), "ham": (None, "no uid is left for them")
    }  # fmt: skip
    assert [user.name for user in everybody.users] == ["dodam"]


@pytest.mark.parametrize(
    ("gecos", "email", "name"),
    [
        ("Kim Minji,,,,minji@example.org", "minji@example.org", "Kim Minji"),
        ("minji@example.org", "minji@example.org", None),
        ("Kim <minji@example.org>", "minji@example.org", None),
        ("김민지,Room 3,,", None, "김민지"),
        ("minji", None, None),
        ("a@b@c, x", None, None),
        ("{{ evil }}", None, None),
        ("\x1b[2J", None, None),
        ("", None, None),
        ("\ufffd\ufffd,,,minji@example.org", "minji@example.org", None),
    ],
)
def test_what_gecos_says(gecos: str, email: str | None, name: str | None) -> None:
    assert (address(gecos), full_name(gecos, "minji")) == (email, name)


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=40), st.integers(0, 10**10 - 1), st.integers(0, 10**10 - 1))
def test_whatever_a_host_says_of_somebody_users_yml_can_hold(name: str, gecos: str, uid: int, days: int) -> None:
    everybody = found(with_accounts("a", account(name, uid, gecos=gecos, expires=days)))
    for user in everybody.users:
        assert (user.name, user.uid) == (name, uid)


@pytest.mark.parametrize(
    ("days", "end"),
    [
        # shadow has the first day that is not valid
        ([19754, 19754], date(2024, 1, 31)),
        ([19754, 19755], date(2024, 2, 1)),
        ([19754, None], None),
        ([None, None], None),
        ([10**9], None),
        ([0], date(1970, 1, 1)),
    ],
)
def test_the_last_day_is_the_latest(days: list[int | None], end: date | None) -> None:
    hosts = [with_accounts(f"h{place}", account("minji", 1001, expires=one)) for place, one in enumerate(days)]
    (person,) = found(*hosts).persons.values()
    assert last_day(person) == end
    assert set(last_days(person)) == {one.name for one in hosts}


def test_who_uses_docker() -> None:
    assert docker_users([host()]) is None, "no host has it: nothing is said of anybody"
    docker = {**ANSWER["docker"], "program": True, "lingering": ["jiho"]}
    groups = [{"name": "docker", "gid": 990, "members": ["minji"]}]
    assert docker_users([host(groups=groups), host(docker=docker)]) == {"minji", "jiho"}
    users = {user.name: user.docker for user in found(host(), docker={"minji"}).users}
    assert users == {"minji": True, "jiho": False}


def test_uids_with_several_names() -> None:
    everybody = found(with_accounts("a", account("x", 1001)), with_accounts("b", account("y", 1001)))
    assert list(by_uid(everybody.persons)) == [(1001, {"x": ["a"], "y": ["b"]})]


@pytest.mark.parametrize(
    ("given_uids", "accounts"),
    [
        ([], None),
        ([20000, 49999], None),
        ([1001, 1050], {"uid_first": 1000, "uid_last": 18999}),
        ([1001, 20001], {"uid_first": 1000, "uid_last": 20001, "gid": 20002}),
        ([20000, 50001], {"uid_first": 20000, "uid_last": 50001}),
        ([1001, 59000], {"uid_first": 1000, "uid_last": 33766, "gid": 33767}),
        ([1001, 70000], {"uid_first": 1000, "uid_last": 18999}),
    ],
)
def test_the_range_of_uids(given_uids: list[int], accounts: dict[str, int] | None) -> None:
    ranges = id_ranges(given_uids)
    assert ranges.get("accounts") == accounts
    Settings.model_validate({"name": "x", **ranges})


@given(st.lists(st.integers(0, 2**32), max_size=20))
def test_whatever_uids_there_are_the_range_is_one_that_a_site_can_have(many: list[int]) -> None:
    Settings.model_validate({"name": "x", **id_ranges(many)})

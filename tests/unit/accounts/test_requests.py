"""Who gets which ids: never somebody else's, whatever happened before."""

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpuadmin.accounts import desired, ids
from gpuadmin.accounts import requests as accounts
from gpuadmin.accounts.requests import Request
from gpuadmin.config.schema import HIGHEST_SUBID, Settings, User
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from tests.support.sites import SETTINGS, public_key, registry

pytestmark = pytest.mark.holds("a uid that somebody had is not given again")


SMALL = Settings.model_validate({"name": "small", "accounts": {"uid_first": 20000, "uid_last": 20004}})

USERS = f"""users:
  - {{name: minji, uid: 20000, keys: ["{public_key("minji")}"], expires: 2027-02-28}}
  - {{name: jiho, uid: 20001}}
retired:
  - {{name: old, uid: 20002, removed: 2026-02-01}}
"""


def uids(text: str, *requests: Request, settings: Settings = SETTINGS) -> dict[str, int | None]:
    added = accounts.add(registry(text, settings), settings, requests)
    return {user.name: user.uid for user in added.registry.users}


def test_the_next_uid_is_above_all_that_ever_were() -> None:
    assert uids(USERS, Request("yuna"), Request("seo")) == {"minji": 20000, "jiho": 20001, "yuna": 20003, "seo": 20004}


def test_a_requested_uid_is_kept_clear_of_by_the_others() -> None:
    assert uids(USERS, Request("yuna"), Request("seo", uid=20003))["yuna"] == 20004


def test_gaps_are_used_when_the_top_is_reached() -> None:
    text = (
        "users: [{name: a, uid: 20004}, {name: b, uid: 20001}]\nretired: [{name: c, uid: 20000, removed: 2026-01-01}]\n"
    )
    assert uids(text, Request("d"), Request("e"), settings=SMALL) == {"a": 20004, "b": 20001, "d": 20002, "e": 20003}
    with pytest.raises(RefusedError, match="all uids from 20000 to 20004 are taken"):
        uids(text, *(Request(name) for name in "defg"), settings=SMALL)


def test_a_host_that_claims_all_uids_is_named_with_the_way_out() -> None:
    """users.yml wins over what a host says that its files have: sync-users shows that, and goes on."""
    claims = dict.fromkeys(range(20000, 20005), "node1: /local/x")
    with pytest.raises(RefusedError, match="are taken, 5 of them as node1 says") as found:
        accounts.add(registry("users: []\n", SMALL), SMALL, [Request("d")], claims)
    assert "write them into users.yml with a uid, if that host is wrong" in str(found.value.hint)


def test_somebody_who_comes_back_gets_the_uid_that_they_had() -> None:
    added = accounts.add(registry(USERS), SETTINGS, [Request("old")])
    assert added.find("old") == User(name="old", uid=20002)
    assert added.registry.retired == []


def test_somebody_who_comes_back_does_not_free_the_uid_that_they_had() -> None:
    """Their files still carry it: another uid for them would hand the old one to the next person."""
    with pytest.raises(GpuadminError, match="20002"):
        accounts.add(registry(USERS), SETTINGS, [Request("old", uid=20100)])


def test_a_uid_of_somebody_who_left_is_refused() -> None:
    with pytest.raises(RefusedError, match="uid 20002 was old's"):
        uids(USERS, Request("yuna", uid=20002))


def test_a_uid_that_somebody_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="20001 is taken by 'jiho'"):
        uids(USERS, Request("yuna", uid=20001))


def test_adding_twice_is_running_it_again() -> None:
    file = registry(USERS)
    same = Request("minji", keys=(public_key("minji"),), expires=date(2027, 2, 28))
    assert accounts.add(file, SETTINGS, [same]) is file
    assert accounts.add(file, SETTINGS, [Request("minji")]) is file
    with pytest.raises(ConfigError, match="registered already, with another expires"):
        accounts.add(file, SETTINGS, [Request("minji", expires=date(2028, 2, 28))])
    with pytest.raises(ConfigError, match="'seo' is named twice"):
        accounts.add(file, SETTINGS, [Request("seo"), Request("seo")])


STEPS = st.lists(st.tuples(st.sampled_from(("add", "remove")), st.integers(0, 7)), max_size=25)


@given(STEPS)
def test_a_uid_never_belongs_to_two_people(steps: list[tuple[str, int]]) -> None:
    file = registry("users: []\n")
    owners: dict[int, str] = {}
    for verb, number in steps:
        name = f"user{number}"
        if verb == "add":
            file = accounts.add(file, SETTINGS, [Request(name)])
        elif file.find(name):
            file = file.changed(SETTINGS, retire={name: None})
        for user in file.registry.users:
            assert user.uid is not None
            assert owners.setdefault(user.uid, user.name) == user.name


@st.composite
def id_settings(draw: st.DrawFn) -> Settings:
    first = draw(st.integers(1000, 59000))
    last = draw(st.integers(first, min(first + 6000, 60000)))
    size = draw(st.integers(65536, 2**20))
    highest = HIGHEST_SUBID + 1 - size * (last - first + 1)
    base = draw(st.integers(65536, max(65536, highest)))
    gid = first - 1 if first > 1000 else last + 1
    raw = {
        "name": "x",
        "accounts": {"uid_first": first, "uid_last": last, "gid": gid},
        "subids": {"base": base, "size": size},
    }
    try:
        return Settings.model_validate(raw)
    except ValidationError:
        return SETTINGS


@given(id_settings(), st.data())
def test_subids_never_overlap(settings: Settings, data: st.DataObject) -> None:
    first, last = settings.accounts.uid_first, settings.accounts.uid_last
    some = sorted(data.draw(st.sets(st.integers(first, last), min_size=1, max_size=20)) | {first, last})
    ranges = [ids.subid_range(uid, settings) for uid in some]
    for start, end in ranges:
        assert end - start + 1 == settings.subids.size
        assert settings.subids.base <= start <= end <= HIGHEST_SUBID
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def test_default_subids_leave_what_others_use_alone() -> None:
    """docs/decisions/0002-uids-and-subids.md: systemd's and shadow's ranges, for at least 5,000 people."""
    accounts_settings = SETTINGS.accounts
    assert accounts_settings.uid_last - accounts_settings.uid_first + 1 >= 5000
    low = ids.subid_range(accounts_settings.uid_first, SETTINGS)[0]
    high = ids.subid_range(accounts_settings.uid_last, SETTINGS)[1]
    for begin, end in (
        (0, 65535),
        (100000, 600100000),
        (524288, 1879048191),
        (2147352576, 2147418111),
        (2**32 - 1, 2**32),
    ):
        assert high < begin or low > end


@pytest.mark.holds("an end of long ago is not none")
def test_what_a_node_is_told() -> None:
    minji = registry(USERS).registry.users[0]
    assert desired.desired(minji, SETTINGS) == {
        "name": "minji",
        "uid": 20000,
        "gid": 20000,
        "shell": "/bin/bash",
        "home": "/home/minji",
        # shadow(5): from that day on nobody logs in, so the last valid day plus one
        "expires": (date(2027, 3, 1) - date(1970, 1, 1)).days,
        "locked": False,
        "keys": [public_key("minji")],
        "docker": True,
    }
    assert desired.desired(User(name="a", uid=20000, expires=date(1969, 12, 31)), SETTINGS)["expires"] == 1


def test_docker_is_off_where_the_site_says_so() -> None:
    settings = Settings.model_validate({"name": "x", "docker": {"enabled": False}})
    assert desired.desired(User(name="a", uid=20000), settings)["docker"] is False


def test_unknown_people() -> None:
    with pytest.raises(ConfigError, match="not registered: 'minij'") as caught:
        accounts.known(registry(USERS), ["jiho", "minij"])
    assert caught.value.hint == "did you mean 'minji'?"
    assert [user.name for user in accounts.known(registry(USERS), ["jiho", "jiho"])] == ["jiho"]


@pytest.mark.parametrize("name", ["root", "gpuadmin", "prof"])
def test_protected_people(name: str) -> None:
    settings = Settings.model_validate({"name": "x", "protected": ["prof"]})
    with pytest.raises(RefusedError, match=f"'{name}' is protected"):
        accounts.refuse_protected(settings, ["minji", name], "remove-user")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"accounts": {"uid_first": 30000, "uid_last": 20000, "gid": 1000}}, "uid_first 30000 is above uid_last 20000"),
        ({"accounts": {"gid": 20001}}, "gid 20001 is in the range"),
        ({"accounts": {"uid_first": 500}}, "greater than or equal to 1000"),
        ({"accounts": {"uid_last": 65534}}, "less than or equal to 60000"),
        ({"subids": {"base": 2**31, "size": 2**18}}, "people fit"),
        ({"subids": {"size": 65535}}, "greater than or equal to 65536"),
        ({"homes": {"export": "/"}}, "must not be /"),
        ({"runs": {"keep": 0}}, "greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be(raw: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings.model_validate({"name": "x", **raw})

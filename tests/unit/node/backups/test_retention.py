"""Which backups go: never somebody's newest verified one."""

from datetime import UTC, datetime, timedelta

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import retention
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 12, 21, tzinfo=UTC)


@st.composite
def sets(draw: st.DrawFn) -> list[retention.Kept]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        created = NOW - timedelta(days=draw(st.integers(0, 500)), seconds=number)
        label = draw(st.sampled_from(["daily", "manual", "reset-2026-1"]))
        having = draw(st.frozensets(st.sampled_from("abcd")))
        verified = having & draw(st.frozensets(st.sampled_from("abcd")))
        found.append(retention.Kept(f"{created:%Y%m%dT%H%M%SZ}-{label}", created, having, verified))
    return found


@given(sets(), st.integers(1, 400), st.integers(0, 5))
def test_nobody_s_newest_verified_home_goes(found: list[retention.Kept], days: int, ordinary: int) -> None:
    gone = set(retention.expired(found, days=days, ordinary=ordinary, now=NOW))
    left = [one for one in found if one.name not in gone]
    for name in "abcd":
        verified = [one for one in found if name in one.verified]
        if verified:
            assert max(verified, key=lambda one: (one.created, one.name)).name not in gone
        elif any(name in one.homes for one in found):
            assert any(name in one.homes for one in left)
    for one in found:
        if not one.ordinary and one.created > NOW - timedelta(days=days):
            assert one.name not in gone
    assert set(retention.expired(left, days=days, ordinary=ordinary, now=NOW)) == set()


def test_the_policy() -> None:
    def one(label: str, days: int, verified: str = "") -> retention.Kept:
        created = NOW - timedelta(days=days)
        return retention.Kept(f"{created:%Y%m%dT%H%M%SZ}-{label}", created, frozenset("ab"), frozenset(verified))

    newer = [one("daily", 3), one("daily", 2), one("manual", 1), one("manual", 0, "ab")]
    assert retention.expired(newer, days=183, ordinary=2, now=NOW) == [], "the timer's are counted by themselves"
    found = [one("reset-old", 400, "ab"), one("reset-new", 10, "ab"), one("daily", 3), one("daily", 2), one("daily", 1)]
    gone = retention.expired(found, days=183, ordinary=2, now=NOW)
    assert [name.partition("-")[2] for name in gone] == ["reset-old", "daily"]
    # the old one stays as long as nobody's home was verified since
    rest = [found[0], *found[2:]]
    assert retention.expired(rest, days=183, ordinary=2, now=NOW) == [found[2].name]


def test_which_of_two_is_newer_is_not_said_by_another_host() -> None:
    """Both are old enough to go, and the one that came last has the earlier name."""
    homes = frozenset("a")
    first, last = (
        retention.Kept(name, NOW - timedelta(days=500), homes, homes, NOW - timedelta(days=days))
        for name, days in (("20301221T010203Z-manual", 300), ("20201221T010203Z-manual", 200))
    )
    assert retention.expired([first, last], days=30, ordinary=0, now=NOW) == [first.name]


@pytest.mark.holds("a home that was not verified does not count as verified")
def test_a_set_counts_as_verified_for_whose_home_was() -> None:
    found = {"name": "20261221T010203Z-daily", "created": "2026-12-21T01:02:03Z",
             "homes": {"a": {"verified": "2026-12-22T01:02:03Z"}, "b": {"verified": None}}}  # fmt: skip
    assert retention.view(found).verified == {"a"}
    assert retention.view(found).homes == {"a", "b"}

"""Decisions about subuid and subgid, as a table."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import subids
from hypothesis import given
from hypothesis import strategies as st

BASE, SIZE, FIRST = 2147483648, 65536, 20000
MINJI = BASE + SIZE
NEW = f"minji:{MINJI}:{SIZE}"


def plan(subuid: str, subgid: str, ids: tuple[int, ...] = (0, 20001), **more: object) -> subids.SubidPlan:
    arguments: dict = {"base": BASE, "size": SIZE, "uid_first": FIRST, "real_ids": ids, **more}
    return subids.plan_subids(subuid, subgid, [("minji", 20001)], **arguments)


@pytest.mark.parametrize(
    ("subuid", "subgid", "append_uid", "append_gid", "conflict"),
    [
        pytest.param("", "", [NEW], [NEW], None, id="computed from the uid"),
        pytest.param(f"{NEW}\n", f"{NEW}\n", [], [], None, id="there already"),
        pytest.param("minji:100000:65536\n", "minji:100000:65536\n", [], [], None, id="valid range kept"),
        pytest.param("20001:100000:65536\n", "20001:100000:65536\n", [], [], None, id="owner by uid"),
        pytest.param("minji:100000:65536\n", "", [], ["minji:100000:65536"], None, id="same in the other file"),
        pytest.param("", "minji:100000:65536\n", ["minji:100000:65536"], [], None, id="the other way round"),
        pytest.param("minji:100000:65536\n", "other:100000:10\n", [], [], "overlaps", id="not free there"),
        pytest.param("minji:100000:65536\n", "minji:300000:65536\n", [], [], None, id="differing: both kept"),
        pytest.param("minji:100000:100\n", "minji:100000:100\n", [NEW], [NEW], None, id="too small: one more"),
        # The wiki's unanchored 20001:(.*) took each of these for minji's.
        pytest.param("120001:100000:65536\n", "", [NEW], [NEW], None, id="another uid's suffix"),
        pytest.param("x:20001:65536\n", "", [NEW], [NEW], None, id="a start that looks like the uid"),
        pytest.param(f"other:{MINJI - 1}:2\n", "", [], [], "overlaps", id="taken by one id"),
        pytest.param(f"other:{MINJI}:10\r\n", "", [], [], "overlaps", id="taken by a line with CRLF"),
        pytest.param("minji:x:65536\n", "", [NEW], [NEW], None, id="malformed"),
        pytest.param("minji:100000:65536:\n", "", [NEW], [NEW], None, id="a field too many"),
        pytest.param("minji:4294967295:1\n", "", [NEW], [NEW], None, id="beyond the last id"),
        pytest.param(
            "minji:100000:65536\nother:120000:65536\n", "minji:100000:65536\n", [], [], "overlap", id="shared"
        ),
        pytest.param("minji:1000:65536\n", "minji:1000:65536\n", [], [], "real id 20001", id="holds real ids"),
    ],
)
def test_table(subuid: str, subgid: str, append_uid: list[str], append_gid: list[str], conflict: str | None) -> None:
    result = plan(subuid, subgid)
    assert result.append == {"subuid": append_uid, "subgid": append_gid}
    assert (conflict in result.conflicts["minji"]) if conflict else not result.conflicts


def test_ranges_that_are_not_given_and_no_conflict() -> None:
    result = plan("", "", ids=(MINJI + 5,))
    assert "real id" in result.conflicts["minji"]
    text = "minji:100000:65536\n20001:100000:65536\n"
    result = plan(text, text)
    assert not result.conflicts
    assert any("overlap" in problem for problem in result.problems)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("minji:100000\n", "line 1 is not owner:start:count"),
        ("# comment\n\nx:y:z\n", "line 3 has a start or count"),
        ("a:100000:65536\r\n", "line 1 ends with a carriage return"),
        ("a:100000:0\n", "line 1 is empty"),
        ("a:100000:10\nb:100005:10\n", "lines 1 and 2 overlap"),
        ("a:0:65536\n", "contains the real id 0"),
        ("a: 100000:65536\n", "not a number"),
    ],
)
def test_bad_lines_are_reported_and_kept(text: str, words: str) -> None:
    result = plan(text, "")
    assert any(words in problem for problem in result.problems)
    assert subids.edited(text, result.append["subuid"], set()).startswith(text)


def test_lines_are_added_after_the_last_and_go_only_when_told() -> None:
    assert subids.edited("a:1:2", ["b:3:4"], set()) == "a:1:2\nb:3:4\n"
    text = "gone:100000:65536\n# gone:1:1\nkept:200000:65536\n"
    result = plan(text, text, drop=[("gone", 20009)])
    assert subids.edited(text, [], result.remove["subuid"]) == "# gone:1:1\nkept:200000:65536\n"


lines = st.one_of(
    st.tuples(
        st.sampled_from(["a", "b", "u3", "20003"]),
        st.integers(0, 2**32),
        st.integers(0, 200000),
    ).map(lambda one: f"{one[0]}:{one[1]}:{one[2]}"),
    st.tuples(st.sampled_from(["a", "u4"]), st.integers(BASE - SIZE, BASE + 9 * SIZE), st.integers(1, SIZE)).map(
        lambda one: f"{one[0]}:{one[1]}:{one[2]}"
    ),
    st.sampled_from(["", "# x", "broken", "a:b:c"]),
)


@given(st.lists(lines, max_size=8), st.lists(lines, max_size=8), st.sets(st.integers(20000, 20008)))
def test_no_new_range_overlaps_anything(subuid: list[str], subgid: list[str], uids: set[int]) -> None:
    texts = {"subuid": "\n".join(subuid), "subgid": "\n".join(subgid)}
    wanted = [(f"u{uid - 20000}", uid) for uid in sorted(uids)]
    real = {0, 65534, *uids}
    result = subids.plan_subids(
        texts["subuid"], texts["subgid"], wanted, base=BASE, size=SIZE, uid_first=FIRST, real_ids=real
    )
    for kind, text in texts.items():
        new = subids.parse("\n".join(result.append[kind]))
        taken = [one for one in subids.parse(text) if one.count]
        for place, one in enumerate(new):
            for other in taken + new[:place]:
                assert one.end <= other.start or other.end <= one.start
            assert not any(one.start <= value < one.end for value in real)
    again = subids.plan_subids(
        subids.edited(texts["subuid"], result.append["subuid"], set()),
        subids.edited(texts["subgid"], result.append["subgid"], set()),
        wanted, base=BASE, size=SIZE, uid_first=FIRST, real_ids=real,
    )  # fmt: skip
    assert again.append == {"subuid": [], "subgid": []}


LAST = 2**32 - 2


def ranges(text: str, *users: tuple[str, int], base: int = 2**31, real: tuple[int, ...] = ()) -> subids.SubidPlan:
    return subids.plan_subids(text, text, users, base=base, size=SIZE, uid_first=20000, real_ids=real)


def test_a_range_and_a_line_end_with_the_last_id() -> None:
    """2**32 - 1 is (uid_t) -1: chown(2) takes it for `leave it as it is`."""
    fits = ranges("", ("minji", 20000), base=LAST - SIZE + 1)
    assert fits.append["subuid"] == [f"minji:{LAST - SIZE + 1}:{SIZE}"]
    over = ranges("", ("minji", 20000), base=LAST - SIZE + 2)
    assert over.append == {"subuid": [], "subgid": []}
    assert "goes beyond the last id" in over.conflicts["minji"]
    (found,) = subids.parse(f"minji:{LAST}:2\n")
    assert found.problem == "is empty or goes beyond the last id"
    (whole,) = subids.parse(f"minji:{LAST - 1}:2\n")
    assert whole.problem is None
    beyond = ranges(f"minji:{LAST - SIZE + 2}:{SIZE}\n", ("minji", 20000))
    assert beyond.append["subuid"] == [f"minji:{2**31}:{SIZE}"], "newuidmap does not read that line"


def test_a_range_that_is_there_is_kept_and_no_second_one_is_written() -> None:
    """Files belong to it. That holds with a second range in one of the files, too."""
    here = f"minji:100000:{SIZE}\n"
    plan = subids.plan_subids(
        here + f"minji:300000:{SIZE}\n", here, [("minji", 20000)], base=2**31, size=SIZE, uid_first=20000, real_ids=()
    )
    assert plan.append == {"subuid": [], "subgid": []}
    assert plan.problems == []
    assert plan.conflicts == {}


def test_two_newcomers_of_one_uid_never_share_a_range() -> None:
    """The caller refuses them; should it not, the second gets nothing."""
    plan = ranges("", ("minji", 20000), ("jiho", 20000))
    assert plan.append["subuid"] == [f"minji:{2**31}:{SIZE}"]
    assert "overlaps a range that is there" in plan.conflicts["jiho"]

"""Who gets which ids by a host's databases, and who does not."""

import pytest

from gpuadmin.takeover.node.renumbering.decide import (
    Home,
    Numbers,
    Wanted,
    decide,
    edited,
    unmoved,
)  # fmt: skip
from gpuadmin.takeover.node.renumbering.ids import TEMPORARY
from gpuadmin.takeover.node.renumbering.journal import Renumbering

BASE = 2**31


def texts(
    *people: tuple[str, int], groups: tuple[tuple[str, int], ...] = (), subids: str = ""
) -> dict[str, str | None]:
    """Databases of people whose group is theirs, and more groups."""
    passwd = "root:x:0:0:root:/root:/bin/bash\n" + "".join(
        f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n" for name, uid in people
    )
    shadow = "root:*:1:0:99999:7:::\n" + "".join(f"{name}:$y$x:1:0:99999:7:::\n" for name, _ in people)
    own = dict(people) | dict(groups)
    group = "root:x:0:\n" + "".join(f"{name}:x:{gid}:\n" for name, gid in own.items())
    return {"passwd": passwd, "shadow": shadow, "group": group, "gshadow": None, "subuid": subids, "subgid": subids}


def test_a_swap() -> None:
    found = decide([Wanted("minji", 1002), Wanted("jiho", 1001)], texts(("minji", 1001), ("jiho", 1002)), Numbers())
    assert found.people == (Renumbering("minji", 1001, 1002, 1001), Renumbering("jiho", 1002, 1001, 1002))
    assert found.problems == {}


@pytest.mark.parametrize(
    ("wanted", "given", "words"),
    [
        ([("minji", 20001)], texts(("minji", 999)), "system account"),
        ([("minji", 999)], texts(("minji", 1001)), "system account"),
        ([("minji", 20001)], texts(("minji", 1001), ("twin", 1001)), "shares uid 1001"),
        ([("minji", 20001)], texts(("minji", 1001), ("minji", 1001)), "more than one line"),
        ([("minji", 1002)], texts(("minji", 1001), ("jiho", 1002)), "uid 1002 belongs to 'jiho'"),
        ([("minji", 20001)], texts(("minji", 1001), groups=(("lab", 20001),)), "gid 20001 belongs to the group 'lab'"),
        ([("minji", 20001)], texts(("minji", 1001), groups=(("minji", 50),)), "a system group's"),
        ([("minji", 20001)], texts(("minji", 1001), groups=(("lab", 1001),)), "share gid 1001"),
        (
            [("minji", 20001)],
            {**texts(("minji", 1001)), "passwd": "minji:x:1001:1001::/m:/bin/sh\njiho:x:1002:1001::/j:/bin/sh\n"},
            "is also the primary group of 'jiho'",
        ),
        ([("minji", TEMPORARY.start)], texts(("minji", 1001)), "kept for swaps"),
        (
            [("minji", 20003)],
            texts(("minji", 20001), subids=f"minji:{BASE + 65536}:65536\ncontainers:{BASE + 3 * 65536}:65536\n"),
            "to 'containers'",
        ),
        ([("minji", 20001)], texts(("minji", 1001), subids="kim:20000:65536\n"), "20001 to 'kim'"),
        # minji waits for jiho, who cannot go
        (
            [("minji", 1002), ("jiho", 1003)],
            texts(("minji", 1001), ("jiho", 1002), ("root2", 1003)),
            "uid 1002 belongs to 'jiho'",
        ),
    ],
)
@pytest.mark.holds(
    "a system account is not renumbered", "a uid that two accounts share is not renumbered",
    "nobody gets a uid that another keeps", "nobody gets a gid that another group keeps",
    "nobody gets subordinate ids that another keeps", "a group that is others' primary one is not renumbered",
)  # fmt: skip
def test_who_stays(wanted: list[tuple[str, int]], given: dict[str, str | None], words: str) -> None:
    found = decide([Wanted(*one) for one in wanted], given, Numbers())
    assert words in found.problems["minji"]
    assert found.people == ()


def test_ranges_that_are_counted_from_the_uid_move_with_it_and_others_stay() -> None:
    given = texts(("minji", 20001), ("jiho", 1002), subids=f"minji:{BASE + 65536}:65536\n1002:100000:65536\n# kept\n")
    found = decide([Wanted("minji", 20003), Wanted("jiho", 20002)], given, Numbers())
    after = edited(given, found.people)
    assert after["subuid"] == f"minji:{BASE + 3 * 65536}:65536\njiho:100000:65536\n# kept\n"
    assert found.people[0].subids == (
        ("subuid", BASE + 65536, BASE + 3 * 65536, 65536), ("subgid", BASE + 65536, BASE + 3 * 65536, 65536),
    )  # fmt: skip


@pytest.mark.parametrize("line", [f"minji:{BASE + 65537}:65536", f"minji:{BASE + 65536}:65537"])
def test_a_range_that_was_made_by_hand_stays(line: str) -> None:
    """Files belong to it; a part of it, or its neighbours, would be somebody else's."""
    given = texts(("minji", 20001), subids=f"{line}\n")
    (found,) = decide([Wanted("minji", 20003)], given, Numbers()).people
    assert found.subids == ()
    assert edited(given, [found])["subuid"] == f"{line}\n"


@pytest.mark.holds("nobody gets subordinate ids that another keeps")
def test_a_range_that_its_owner_keeps_is_not_given_away_because_they_move() -> None:
    subids = f"minji:{BASE + 65536}:65536\njiho:{BASE + 3 * 65536}:65536\n"
    given = texts(("minji", 20001), ("jiho", 1002), subids=subids)
    found = decide([Wanted("minji", 20003), Wanted("jiho", 20002)], given, Numbers())
    assert "to 'jiho'" in found.problems["minji"]
    assert [one.name for one in found.people] == ["jiho"]


def test_who_keeps_their_ids_is_who_has_them_here() -> None:
    expected = {"minji": [20001, 20001], "jiho": [1002, 20002]}
    assert unmoved(expected, {"minji": 20001, "jiho": 20002}) == (Renumbering("minji", 20001, 20001, 20001),)
    assert unmoved(expected, {"minji": 20005}) == ()


def test_a_group_of_another_number_is_renumbered_by_itself() -> None:
    given = texts(("minji", 20001), groups=(("minji", 1001),))
    assert decide([Wanted("minji", 20001)], given, Numbers()).people == (Renumbering("minji", 20001, 20001, 1001),)


COUNTED = f"minji:{BASE + 65536}:65536\n"


@pytest.mark.holds("nobody is renumbered whose subordinate ids are also another's")
@pytest.mark.parametrize(
    ("subids", "stay"),
    [
        (f"{COUNTED}jiho:{BASE + 65536 + 60000}:65536\n", {"minji", "jiho"}),
        (f"jiho:{BASE + 1000}:65536\n20001:{BASE + 65536}:65536\n", {"minji", "jiho"}),
        (f"{COUNTED}sora:{BASE}:131072\n", {"minji"}),
        ("20002:19990:100\n", {"minji", "jiho"}),  # a uid in another's range: a file may be of either
        (f"{COUNTED}jiho:{BASE + 131072}:65536\n", set()),
        # what stays as it is is mixed up no more than it was
        ("minji:100000:65536\njiho:100000:65536\n", set()),
        (f"{COUNTED}minji:{BASE + 65536}:100\n", set()),
    ],
)
def test_whose_ranges_overlap_both_stay(subids: str, stay: set[str]) -> None:
    given = texts(("minji", 20001), ("jiho", 20002), ("sora", 1500), subids=subids)
    found = decide([Wanted("minji", 20011), Wanted("jiho", 20012)], given, Numbers())
    assert set(found.problems) == stay
    assert {one.name for one in found.people} == {"minji", "jiho"} - stay
    if stay:
        other = "sora" if "sora" in subids else "jiho"
        assert f"to '{other}' as well: a file could be either's" in found.problems["minji"]
    if "jiho" in stay:
        assert "to 'minji' as well" in found.problems["jiho"]


def test_databases_are_edited_by_name_and_again_gives_the_same() -> None:
    given = texts(
        ("minji", 20001), ("jiho", 20002), subids=f"20001:{BASE + 65536}:65536\n20002:{BASE + 131072}:65536\n"
    )
    found = decide([Wanted("minji", 20002), Wanted("jiho", 20001)], given, Numbers())
    once = edited(given, found.people)
    assert "minji:x:20002:20002:" in once["passwd"]
    assert "jiho:x:20001:" in once["group"]
    assert once["subuid"] == f"minji:{BASE + 131072}:65536\njiho:{BASE + 65536}:65536\n"
    assert edited({**given, **once}, found.people) == once


def test_whose_group_is_a_shared_one_gets_their_own_and_stays_a_member() -> None:
    given = texts(("minji", 1001))
    given["passwd"] = "minji:x:1001:100::/home/minji:/bin/sh\n"
    given["group"] = "users:x:100:\n"
    found = decide([Wanted("minji", 20001)], given, Numbers())
    assert found.people == (Renumbering("minji", 1001, 20001, None),)
    after = edited(given, found.people)
    assert after["passwd"] == "minji:x:20001:20001::/home/minji:/bin/sh\n"
    assert after["group"] == "users:x:100:minji\nminji:x:20001:\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (texts(("j.doe", 20001), ("jdoe", 20005)), "both 'j.doe' and 'jdoe' have an account here"),
        (
            texts(("jdoe", 20005)),
            "has uid 20005 here, and not 20001: whether that is who is called 'j.doe' is not known",
        ),
        (texts(("j.doe", 999)), "uid 999 is a system account's"),
        (texts(("j.doe", 1001), ("twin", 1001)), "shares uid 1001 with 'twin'"),
        (texts(("j.doe", 1001), ("jiho", 20001)), "uid 20001 belongs to 'jiho' here"),
        (texts(("j.doe", 1001), groups=(("jdoe", 1005),)), "'jdoe' is in /etc/group already"),
        (texts(("j.doe", 1001), subids="jdoe:100000:65536\n"), "'jdoe' is in /etc/subuid already"),
        (texts(("j.doe", 1001), groups=(("sudo:x:27:jdoe\nx", 1005),)), "'jdoe' is in /etc/group already"),
        (
            {**texts(("j.doe", 1001)), "shadow": "j.doe:!:1::::::\njdoe:$y$x:1::::::\n"},
            "'jdoe' is in /etc/shadow already, without an account",
        ),
    ],
)
@pytest.mark.holds(
    "who has the new name already is not taken for the same person", "nobody gets what somebody of that name had"
)
def test_who_keeps_their_name(given: dict[str, str | None], words: str) -> None:
    found = decide([Wanted("jdoe", 20001, was="j.doe")], given, Numbers())
    assert words in found.problems["jdoe"]
    assert found.people == ()


@pytest.mark.parametrize("uid", [20001, 1001])
def test_a_name_changes_in_all_databases_and_again_gives_the_same(uid: int) -> None:
    """Also where some files were written before a cut and others were not."""
    given = texts(("j.doe", uid), ("jodoe", 20009), groups=(("lab", 500),), subids="j.doe:100000:65536\n")
    given |= {"group": f"{given['group']}sudo:x:27:jodoe,j.doe\n", "gshadow": "sudo:*:j.doe:jodoe,j.doe\nj.doe:!::\n"}
    found = decide([Wanted("jdoe", 20001, was="j.doe")], given, Numbers(), {"jdoe": Home("/home/jdoe")})
    assert found.has == {"jdoe": uid, "jodoe": 20009}
    assert found.people == (Renumbering("jdoe", uid, 20001, uid, was="j.doe", home="/home/jdoe"),)
    after = edited(given, found.people)
    assert "jdoe:x:20001:20001::/home/jdoe:/bin/sh\n" in after["passwd"]
    assert "jdoe:$y$x:" in after["shadow"]
    assert "jdoe:x:20001:\n" in after["group"]
    assert "sudo:x:27:jodoe,jdoe\n" in after["group"]
    assert after["gshadow"] == "sudo:*:jdoe:jodoe,jdoe\njdoe:!::\n"
    assert after["subuid"] == "jdoe:100000:65536\n"
    assert not any("j.doe" in text for text in after.values())
    for file in after:
        assert edited({**given, file: after[file]}, found.people) == after
    assert edited({**given, **after}, found.people) == after


def test_a_host_that_does_not_have_the_old_name() -> None:
    wanted = [Wanted("jdoe", 20001, was="j.doe")]
    assert decide(wanted, texts(("jiho", 20002)), Numbers()).people == ()
    assert decide(wanted, texts(("jdoe", 20001)), Numbers()).people == ()
    # the home that the storage host has of an account with the new name
    homes = {"jdoe": Home("", (("/srv/j.doe", "/srv/jdoe"),))}
    (found,) = decide(wanted, texts(("jdoe", 20001)), Numbers(), homes).people
    assert (found.was, found.homes, found.changes) == ("j.doe", (("/srv/j.doe", "/srv/jdoe"),), True)


def test_files_of_somebody_without_an_account_here() -> None:
    found = decide([Wanted("minji", 20001, assumed=1001)], texts(("jiho", 1002)), Numbers())
    assert found.people == (Renumbering("minji", 1001, 20001, 1001, account=False),)
    assert found.has == {"minji": 1001, "jiho": 1002}

"""Who is ready: as tables of forms, the group's list, and who is registered."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.applications.form import Application
from gpuadmin.applications.group import Member
from gpuadmin.applications.matching import MISSING, Lists, sort_applications
from gpuadmin.applications.names import Newcomer, choose_names, derived
from gpuadmin.config.fields import RESERVED_NAMES, USER_NAME
from gpuadmin.config.schema import Registry, Settings
from tests.support.sites import public_key

SETTINGS = Settings.model_validate({"name": "x", "term": {"name": "2026-2", "deadline": "2026-12-31"}})


def applied(line: int, email: str | None, number: str | None = None, **more: Any) -> Application:
    fields: dict[str, Any] = {
        "line": line, "time": None, "name": f"person {line}", "student_id": number, "email": email, "user_name": None,
        "keys": (public_key(str(more.pop("seed", line))),), "docker": True, "missing": (),
    }  # fmt: skip
    return Application(**{**fields, **more})


def member(line: int, email: str | None = None, number: str | None = None) -> Member:
    return Member(line, f"member {line}", number, email)


def registry(*users: dict[str, Any], retired: list[dict[str, Any]] | None = None) -> Registry:
    return Registry.model_validate({"users": list(users), "retired": retired or []})


def names(lists: Lists) -> dict[str, list[str]]:
    return {
        "ready": [f"{entry.email} {entry.account}" for entry in lists.ready],
        "incomplete": [f"{entry.email} {','.join(entry.missing)}" for entry in lists.incomplete],
        "unknown": [f"{entry.email} {entry.reason}" for entry in lists.unknown],
    }


A, B, C = "a@example.org", "b@example.org", "c@example.org"
MATCHED: dict[str, tuple[list[Application], list[Member] | None, list[str], list[str], list[str]]] = {
    "no list": ([applied(2, A), applied(3, B, missing=("terms",))], None, ["a@"], ["b@ terms"], []),
    "by address": ([applied(2, A)], [member(2, "A@example.org")], ["a@"], [], []),
    "by student id": ([applied(2, A, "1")], [member(2, None, "1")], ["a@"], [], []),
    "by both": ([applied(2, A, "1")], [member(2, A, "1")], ["a@"], [], []),
    "nobody of the group": ([applied(2, A, "1")], [], [], [], ["a@ not in the group"]),
    "incomplete and in the group": ([applied(2, A, missing=("terms",))], [member(2, A)], [], ["a@ terms"], []),
    "in the group without a form": ([], [member(2, A)], [], ["a@ form"], []),
    "in the group without a form and without an address": ([], [member(2, None, "1")], [], [], ["None no form"]),
    "another's student id": (
        [applied(2, A, "1"), applied(3, B, "1")], [member(2, A, "1")], ["a@"], [], ["b@ another address"],
    ),
    "another's student id, latest and alone": (
        [applied(3, B, "1")], [member(2, A, "1")], [], ["a@ form"], ["b@ another address"],
    ),
    "a wrong student id": ([applied(2, A, "2")], [member(2, A, "1")], [], ["a@ student_id"], []),
    "a student id twice, no list": (
        [applied(2, A, "1"), applied(3, B, "1"), applied(4, C, "2")], None, ["c@"], [],
        ["a@ under 2 addresses", "b@ under 2 addresses"],
    ),
    "a student id twice, and a list without addresses": (
        [applied(2, A, "1"), applied(3, B, "1")], [member(2, None, "1")], [], [],
        ["a@ under 2 addresses", "b@ under 2 addresses", "None no form"],
    ),
    "two forms for one of the list": (
        [applied(2, A, "1"), applied(3, B, "2")], [member(2, A, "1"), member(3, None, "2"), member(4, B, "3")],
        ["a@"], ["b@ student_id"], ["None no form"],
    ),
    "the latest of an address": ([applied(2, A, missing=("terms",)), applied(3, A)], [member(2, A)], ["a@"], [], []),
    "no address": ([applied(2, None, missing=("email",))], [member(2, A)], [], ["a@ form"], ["None no usable e-mail"]),
    "one key for two": (
        [applied(2, A, seed="k"), applied(3, B, seed="k"), applied(4, C)], None, ["c@"], [],
        ["a@ b@example.org: the same ssh key", "b@ a@example.org: the same ssh key"],
    ),
    "one id for two of the list": (
        [applied(2, A, "1"), applied(3, B, "1")], [member(2, A, "1"), member(3, B)], [], [],
        ["a@ student id 1 is under 2 addresses", "b@ student id 1 is under 2 addresses"],
    ),
    "one id for two of the list, and the list says whose": (
        [applied(2, A, "1"), applied(3, B, "1")], [member(2, A, "1"), member(3, B, "2")], ["a@"], ["b@ student_id"], [],
    ),
    "one person under two addresses of the list": (
        [applied(2, A, "1"), applied(3, B, "1")], [member(2, A, "1"), member(3, B, "1")], [], [],
        ["a@ under 2 addresses", "b@ under 2 addresses"],
    ),
    "one person under two addresses of the list, and one form": (
        [applied(2, A, "1")], [member(2, A, "1"), member(3, B, "1")], [], [],
        ["a@ 1 has a@example.org and b@example.org", "b@ 1 has a@example.org and b@example.org"],
    ),
    "one address of the list with two ids": (
        [applied(2, A, "1")], [member(2, A, "1"), member(3, A, "2")], [], [], ["a@ has the student ids 1 and 2"],
    ),
    "an id that the list has with an address and without": (
        [applied(2, B, "1")], [member(2, A, "1"), member(3, None, "1")], [], ["a@ form"],
        ["b@ another address", "None no form"],
    ),
    "one name for two": (
        [applied(2, "kim@a.example.org"), applied(3, "kim@b.example.org")], None, [], [],
        ["kim@ 2 applicants would be 'kim'", "kim@ 2 applicants would be 'kim'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("forms", "group", "ready", "incomplete", "unknown"), MATCHED.values(), ids=MATCHED.keys())
def test_three_lists(
    forms: list[Application], group: list[Member] | None, ready: list[str], incomplete: list[str], unknown: list[str]
) -> None:
    found = names(sort_applications(forms, group, registry(), SETTINGS, {}))
    for kind, expected in (("ready", ready), ("incomplete", incomplete), ("unknown", unknown)):
        assert len(found[kind]) == len(expected), found
        for text, words in zip(found[kind], expected, strict=True):
            address, _, rest = words.partition(" ")
            assert text.startswith(address)
            assert rest in text


def test_people_with_an_account() -> None:
    people = registry(
        {"name": "ann", "uid": 20000, "email": "A@example.org", "keys": [public_key("2")], "locked": True},
        {"name": "bob", "uid": 20001, "email": B, "expires": "2026-11-30"},
    )
    group = [member(2, A), member(3, B), member(4, C)]
    lists = sort_applications([applied(2, A, missing=("terms",)), applied(3, B)], group, people, SETTINGS, {})
    assert [(entry.account, entry.present) for entry in lists.ready] == [("ann", True), ("bob", True)]
    assert [entry.email for entry in lists.incomplete] == [C]
    assert [note.split(": ", 1)[1] for note in lists.notes] == [
        "the account ann is locked: gpuadmin unlock-user ann",
        "the account bob ends on 2026-11-30: gpuadmin extend-user bob",
        "the form has an ssh key that bob does not have; it was not added",
    ]
    # somebody with an account who fills in nothing is left in peace
    assert not sort_applications([], [member(2, A)], people, SETTINGS, {}).incomplete


def test_a_key_of_somebody_registered() -> None:
    people = registry({"name": "ann", "uid": 20000, "keys": [public_key("2")]})
    (entry,) = sort_applications([applied(2, B)], None, people, SETTINGS, {}).unknown
    assert "the account ann: the same ssh key" in entry.reason


DERIVED = [
    ("minji@example.org", "minji"),
    ("Kim.Minji+gpu@example.org", "kim-minji"),
    ("20231234@example.org", "u20231234"),
    ("a_b@example.org", "a_b"),
    ("o'x@example.org", "o-x"),
    ("-x-@example.org", "x"),
    ("!!!@example.org", "u"),
]


@pytest.mark.parametrize(("email", "name"), DERIVED)
def test_names_made_from_addresses(email: str, name: str) -> None:
    assert derived(email) == name


RETIRED = [
    {"name": "old", "uid": 20009, "removed": "2026-06-30", "email": "old@example.org"},
    {"name": "older", "uid": 20008, "removed": "2026-01-31"},
]
CHOSEN: dict[str, tuple[Newcomer, dict[str, str], str | None, str]] = {
    "from the address": (Newcomer("minji@example.org"), {}, "minji", ""),
    "asked for": (Newcomer("x@example.org", " Minji "), {}, "minji", ""),
    "asked for badly": (Newcomer("x@example.org", "../x"), {}, None, "not a user name"),
    "asked for root": (Newcomer("x@example.org", "root"), {}, None, "system account"),
    "asked for the admin": (Newcomer("x@example.org", "cluster-admin"), {}, None, "own account or group"),
    "the people's group": (Newcomer("gpuusers@example.org"), {}, None, "own account or group"),
    "a system account": (Newcomer("mail@example.org"), {}, None, "system account"),
    "taken": (Newcomer("ann@example.net"), {}, None, "somebody else's account"),
    "too long": (Newcomer("a" * 40 + "@example.org"), {}, None, "not a user name"),
    "decided": (Newcomer("ann@example.net"), {"ANN@example.net": "annie"}, "annie", ""),
    "decided badly": (Newcomer("ann@example.net"), {"ann@example.net": "ann"}, None, "somebody else's account"),
    "comes back": (Newcomer("Old@example.org", "young"), {}, "old", ""),
    "another one of that name": (Newcomer("old@example.net"), {}, None, "not known to be the same person"),
    "was here before addresses were kept": (Newcomer("older@example.org"), {}, None, "not known to be the same person"),
    "is the same, says the admin": (Newcomer("older@example.org"), {"older@example.org": "older"}, "older", ""),
}


@pytest.mark.parametrize(("newcomer", "given_names", "name", "words"), CHOSEN.values(), ids=CHOSEN.keys())
def test_names(newcomer: Newcomer, given_names: dict[str, str], name: str | None, words: str) -> None:
    people = registry({"name": "ann", "uid": 20000, "email": A}, retired=RETIRED)
    settings = SETTINGS.model_copy(update={"admin": SETTINGS.admin.model_copy(update={"user": "cluster-admin"})})
    (found,) = choose_names([newcomer], people, settings, given_names)
    assert found.name == name
    assert words in found.problem
    assert bool(found.problem) == (name is None)


EMAILS = st.sampled_from([A, B, C, "A@example.org", "ann@example.org", "old@example.org", None])
NUMBERS = st.sampled_from(["1", "2", "3", None])
FORMS = st.builds(
    lambda email, number, seed, missing, asked: applied(
        0, email, number, seed=seed, missing=missing if email else ("email",), user_name=asked
    ),
    EMAILS, NUMBERS, st.integers(0, 4), st.sampled_from([(), (), ("terms",)]),
    st.sampled_from([None, "ann", "x", "root", "old"]),
)  # fmt: skip
MEMBERS = st.lists(st.tuples(EMAILS, NUMBERS), max_size=5)


@given(forms=st.lists(FORMS, max_size=6), members=st.none() | MEMBERS)
def test_whatever_is_sent(forms: list[Application], members: list[tuple[str | None, str | None]] | None) -> None:
    forms = [replace(form, line=line) for line, form in enumerate(forms, start=2)]
    group = None if members is None else [member(line, *pair) for line, pair in enumerate(members, start=2)]
    people = registry(
        {"name": "ann", "uid": 20000, "email": "ann@example.org", "keys": [public_key("0")]}, retired=RETIRED
    )
    lists = sort_applications(forms, group, people, SETTINGS, {})
    everybody = [*lists.ready, *lists.incomplete, *lists.unknown]
    lines = [entry.line for entry in everybody if entry.line is not None]
    assert len(lines) == len(set(lines)), "in one list, once"
    emails = {form.email.casefold() for form in forms if form.email}
    assert emails == {entry.email.casefold() for entry in everybody if entry.line and entry.email}, "nobody is lost"
    new = [entry for entry in lists.ready if not entry.present]
    accounts = [entry.account for entry in new]
    assert len(accounts) == len(set(accounts))
    keys = [key.split()[1] for entry in new if entry.application for key in entry.application.keys]
    assert len(keys) == len(set(keys))
    assert public_key("0").split()[1] not in keys
    ids = [entry.application.student_id for entry in new if entry.application and entry.application.student_id]
    assert len(ids) == len(set(ids)), "one account for each student id"
    for entry in new:
        assert entry.account is not None
        assert USER_NAME.fullmatch(entry.account)
        assert entry.account not in RESERVED_NAMES | {"ann"}
        assert (entry.account == "old") <= (entry.email == "old@example.org")
        assert entry.application is not None
        assert not entry.application.missing
        if group is not None:
            number = entry.application.student_id
            fitting = [one for one in group if _fits(one, entry.email, number)]
            assert fitting, "the group's list knows them"


def _fits(one: Member, email: str | None, number: str | None) -> bool:
    if one.email is None:
        return number is not None and one.student_id == number
    same = email is not None and one.email.casefold() == email.casefold()
    return same and (one.student_id is None or number is None or one.student_id == number)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_whatever_is_missing_has_words_for_the_admin_and_for_the_applicant(language: str) -> None:
    text = (Path(__file__).parents[3] / f"templates/mail/incomplete.{language}.j2").read_text()
    assert set(re.findall(r'^  "(\w+)": ', text, re.MULTILINE)) == set(MISSING)

"""Whose every uid was, as the storage host remembers it."""

import json
import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import uids
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import directories as homes_utils
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import operations

from tests.support.operations import ask

pytestmark = pytest.mark.holds(
    "a uid is remembered before a home is made",
    "who is locked gets no home",
    "who is locked is refused as well",
    "who is refused gets no home",
)


MINJI = {"name": "minji", "uid": 20000, "gid": 20000, "locked": True}
JIHO = {"name": "jiho", "uid": "20001"}


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, str, str]:
    """The homes, the archives and the state."""
    for name in ("homes", "archive", "state"):
        (tmp_path / name).mkdir()
    return str(tmp_path / "homes"), str(tmp_path / "archive"), str(tmp_path / "state")


def test_people_are_remembered_whatever_comes_later(place: tuple[str, str, str]) -> None:
    homes, archive, state = place
    assert uids.keep(homes, archive, [MINJI], [], check=True, state=state).memory == {}
    assert list(Path(state).iterdir()) == []
    assert uids.keep(homes, archive, [MINJI, {"name": "../x", "uid": 5}, {"name": "a"}], [], check=False,
                     state=state).memory == {"20000": "minji"}  # fmt: skip
    assert uids.keep(homes, archive, [JIHO], [], check=False, state=state).memory == {"20000": "minji", "20001": "jiho"}
    # another owner of a uid does not replace the first one: an admin has to let them go
    again = uids.keep(homes, archive, [{"name": "seo", "uid": 20000}], [], check=False, state=state)
    assert again.memory == {"20000": "minji", "20001": "jiho"}
    assert uids.keep(homes, archive, [], ["minji"], check=False, state=state).memory == {"20001": "jiho"}
    file = uids.path(homes, state)
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert json.loads(Path(file).read_text())["root"] == homes
    assert uids.recall("/srv/other/homes", state) == {}


@pytest.mark.root
def test_what_homes_and_archives_carry(place: tuple[str, str, str]) -> None:
    homes, archive, state = place
    for name, uid in (("minji", 20000), ("left\x1b[2J", 20003)):
        path = Path(homes) / name
        path.mkdir()
        os.chown(path, uid, uid)
    for name in ("jiho-20001-20261122T010203Z.tar.zst", "rubbish"):
        (Path(archive) / name).touch()
    kept = Path(homes) / ".gpuadmin-attic/yuna-20009-20261122T010203Z-leftover"
    kept.mkdir(parents=True)
    os.chown(kept, 20004, 20004)
    seen = uids.see(homes, archive)
    assert seen == {
        20004: str(kept),
        20000: f"{homes}/minji", 20003: f"{homes}/left\\x1b[2J",
        20001: f"{archive}/jiho-20001-20261122T010203Z.tar.zst",
    }  # fmt: skip
    uids.keep(homes, archive, [MINJI, JIHO], [], check=False, state=state)
    kept = uids.keep(homes, archive, [], ["minji", "jiho"], check=False, state=state)
    assert kept.memory == {"20000": "minji", "20001": "jiho"}
    assert kept.problem is not None
    assert "uid 20000 is not forgotten" in kept.problem
    assert uids.see("/nowhere", None) == {}


DAMAGED = ["", "{", "[]", '{"uids": []}', '{"uids": {"x": "a"}}', '{"uids": {"1": "../x"}}', "[" * 9999]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_memory_is_said_and_not_replaced(place: tuple[str, str, str], text: str) -> None:
    homes, archive, state = place
    file = Path(uids.path(homes, state))
    file.parent.mkdir()
    file.write_text(text)
    known = uids.keep(homes, archive, [MINJI], [], check=False, state=state)
    assert vars(known) == {"memory": None, "seen": {}, "problem": known.problem}
    assert "is damaged" in str(known.problem)
    assert file.read_text() == text
    with pytest.raises(NodeError, match="is damaged"):
        uids.recall(homes, state)


def test_a_link_in_its_place_is_not_followed(place: tuple[str, str, str]) -> None:
    homes, archive, state = place
    file = Path(uids.path(homes, state))
    file.parent.mkdir()
    file.symlink_to("/etc/passwd")
    assert uids.keep(homes, archive, [MINJI], [], check=False, state=state).memory is None
    assert file.is_symlink()


def test_a_uid_that_was_given_twice_gets_one_home(place: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two admins with a copy of the site each: both asked before either was done, and both were told 20005."""
    root, archive, state = place
    plans = []

    def converge(request: homes_utils.Request, refused: dict[str, str], check: bool) -> homes_utils.Plan:
        plans.append(homes_utils.compute(request, {}, lambda name, uid: False, refused))
        return plans[-1]

    monkeypatch.setattr(operations, "converge", converge)
    for name, forget, check in (
        ("alice", [], False), ("bob", [], True), ("bob", [], False), ("alice", [], False), ("bob", ["alice"], False),
    ):  # fmt: skip
        users = [{"name": name, "uid": 20005}, {"name": f"{name}2", "uid": None}]
        arguments = {"root": root, "archive_directory": archive, "users": users, "remember": users[:1],
                     "forget": forget}  # fmt: skip
        said = ask("homes", arguments, check=check, state=state)["report"]["refused"]
        assert said == ({"bob": said.get("bob")} if (name, forget) == ("bob", []) else {})
    assert [bool(plan.create) for plan in plans] == [True, False, False, True, True]
    for plan in plans[1:3]:
        assert plan.conflicts == ["home bob: uid 20005 was given to alice, as this host remembers: nothing made"]
    assert uids.recall(root, state) == {20005: "bob"}


@pytest.mark.holds("no newcomer gets a home whose id a file of somebody in a renumbering may still have")
def test_no_new_home_has_an_id_that_a_file_may_still_have(
    place: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has a home already was let in: nothing of the old id is left."""
    root, archive, state = place
    monkeypatch.setattr(
        operations,
        "converge",
        lambda request, refused, check: homes_utils.compute(request, {}, lambda *_: True, refused),
    )
    (Path(state) / "renumber").mkdir()
    people = [{"name": "sora", "old": 20001, "new": 20003}, {"name": "hana", "old": 20002, "new": 20004}]
    (Path(state) / "renumber/plan.json").write_text(json.dumps({"people": people}))
    (Path(root) / "seo").mkdir()
    users = [JIHO, {"name": "seo", "uid": 20002}, {"name": "bob", "uid": 20009}]
    said = ask("homes", {"root": root, "archive_directory": archive, "users": users}, state=state)["report"]["refused"]
    assert said == {
        "jiho": "uid 20001 was sora's until gpuadmin renumber, which has not ended: a file may still have it"
    }


def test_nothing_is_made_anywhere_for_whom_the_storage_host_refuses(
    place: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is locked is asked no home for, and can have another's uid all the same."""
    root, archive, state = place
    entries = {"seo": homes_utils.Entry("directory", 20009)}
    monkeypatch.setattr(
        operations,
        "converge",
        lambda request, refused, check: homes_utils.compute(request, entries, lambda *_: False, refused),
    )
    uids.keep(root, archive, [MINJI], [], check=False, state=state)
    locked = {"name": "bob", "uid": 20000, "locked": True}
    users = [JIHO, {"name": "seo", "uid": 20002}, locked]
    # as the inventory gives it
    arguments = {"root": root, "archive_directory": archive, "users": json.dumps(users), "remember": json.dumps(users)}
    said = ask("homes", arguments, state=state)
    assert set(json.loads(said["each"]["homes"])) == {"jiho", "seo"}, "who is locked is asked no home for"
    assert said["report"]["refused"] == {
        "bob": "uid 20000 was given to minji, as this host remembers: nothing made",
        "seo": "is a directory of uid 20009, not 20002: kept",
    }

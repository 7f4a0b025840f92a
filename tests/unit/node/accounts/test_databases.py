"""Account databases in memory, and a node's desired state on its disk: damage is never an empty one."""

import json
import stat
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import desired
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases, real_hash
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Record, Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

from gpuadmin.common.records.people import UnixGroup

TEXTS = {
    "passwd": "# kept\nroot:x:0:0::/root:/bin/sh\nminji:x:20001:20001::/home/minji:/bin/bash\n",
    "shadow": "root:*:1::::::\nminji:hash:1::::::\n",
    "group": "root:x:0:\nminji:x:20001:\nvideo:x:44:jiho,minji\n",
    "gshadow": "root:*::\nvideo:*:minji:jiho,minji\n",
}


@pytest.mark.parametrize(
    ("field", "expected"), [("", None), ("*", None), ("x", None), ("!", None), ("!!*", None), ("!$y$a", "$y$a")]
)
def test_a_hash_without_lock_marks(field: str, expected: str | None) -> None:
    assert real_hash(field) == expected


@pytest.mark.parametrize("name", ["passwd", "shadow", "group"])
def test_without_a_database_nothing_is_decided(name: str) -> None:
    with pytest.raises(NodeError, match=f"/etc/{name} is missing"):
        Databases({**TEXTS, name: None})


def test_what_is_not_edited_comes_out_byte_for_byte() -> None:
    assert Databases(TEXTS).texts() == TEXTS
    assert "gshadow" not in Databases({**TEXTS, "gshadow": None}).texts()


def test_who_leaves_a_group_administers_it_no_more() -> None:
    data = Databases(TEXTS)
    data.leave("minji", "video")
    data.join("sora", "video")
    assert data.find_groups("minji") == []
    assert data.find_groups("sora") == ["video"]
    texts = data.texts()
    assert "video:x:44:jiho,sora\n" in texts["group"]
    assert texts["gshadow"] == "root:*::\nvideo:*::jiho,sora\n"


def test_a_group_that_goes_is_nobody_s_and_its_number_is_free() -> None:
    data = Databases(TEXTS)
    data.remove_group("video")
    assert (data.has_group("video"), data.find_groups("jiho"), 44 in data.real_ids()) == (False, [], False)
    data.add_group("video", 45)
    assert (data.gid("video"), 45 in data.real_ids()) == (45, True)
    assert data.texts()["gshadow"] == "root:*::\nvideo:!::\n"


def test_an_account_that_goes_gives_its_uid_back() -> None:
    data = Databases(TEXTS)
    data.remove_passwd("minji")
    assert (data.uid("minji"), data.names_by_uid) == (None, {0: ["root"]})
    assert data.primary[20001] == set()
    assert data.texts()["passwd"] == "# kept\nroot:x:0:0::/root:/bin/sh\n"
    assert "minji" not in data.texts()["shadow"]


STATE = DesiredState(
    Settings(docker_data="/local/docker"),
    {"minji": Record(User("minji", 20001, 20001, home="/home/minji"), "$y$hash", 20000, ("video",))},
    (("jiho", 20002),),
    "/roots/a",
)


def test_what_is_saved_is_loaded_and_root_s_alone(tmp_path: Path) -> None:
    assert desired.load(str(tmp_path)) == DesiredState()
    path = tmp_path / desired.FILE
    path.write_text("older")
    path.chmod(0o644)
    desired.save(str(tmp_path), STATE)
    assert desired.load(str(tmp_path)) == STATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"format": 1}'])
def test_damage_is_no_empty_state(data: bytes) -> None:
    with pytest.raises(NodeError, match=r"accounts\.json"):
        desired.parse(data, "/var/lib/gpuadmin/accounts.json")


def test_groups_are_the_same_from_an_order_and_from_the_file() -> None:
    group = UnixGroup("vision", 50001)
    assert desired.settings_from({"groups": [group]}).groups == (group,)
    assert desired.settings_from({"groups": [vars(group)]}).groups == (group,)


def test_a_person_is_parsed_with_types_and_a_format_to_come_is_not_guessed_at() -> None:
    document = {**json.loads(desired.render(STATE)), "format": desired.FORMAT + 1}
    with pytest.raises(NodeError, match="gpuadmin provision"):
        desired.parse(json.dumps(document).encode(), "x")
    given = {"name": "minji", "uid": "20001", "keys": ["a", "b", "a"], "group": "vision", "expires": None}
    assert desired.parse_user(given) == (
        User("minji", 20001, 20001, home="/home/minji", keys=("a", "b"), group="vision"),
        None,
    )


@pytest.mark.parametrize("change", [{"name": 5}, {"uid": "many"}])
def test_a_person_who_cannot_be_is_named(change: dict[str, object]) -> None:
    document = json.loads(desired.render(STATE))
    document["users"][0].update(change)
    with pytest.raises(NodeError, match="x cannot be read"):
        desired.parse(json.dumps(document).encode(), "x")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"gid": "many"}, "settings.gid is 'many', not a whole number"),
        ({"login": "no"}, "settings.login is 'no', not true or false"),
        ({"docker_data": ["/local"]}, "settings.docker_data is .*, not text"),
    ],
)
def test_settings_that_cannot_be(raw: dict[str, object], words: str) -> None:
    with pytest.raises(NodeError, match=words):
        desired.settings_from(raw)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": 5},
        {"uid": "20001 "},
        {"uid": True},
        {"uid": None},
        {"expires": "soon"},
        {"keys": "ssh-ed25519 AAAA"},
        {"keys": [5]},
        {"locked": "yes"},
        {"docker": 1},
    ],
)
def test_a_person_of_another_type_is_refused_with_the_field(change: dict[str, object]) -> None:
    user, problem = desired.parse_user({"name": "minji", "uid": 20001, **change})
    assert user is None
    assert next(iter(change)) in str(problem)

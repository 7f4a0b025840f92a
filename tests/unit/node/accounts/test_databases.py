"""The account databases of one root in memory: what is asked of them stays true while they are edited."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases, real_hash
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

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
    assert data.groups_of("minji") == []
    assert data.groups_of("sora") == ["video"]
    texts = data.texts()
    assert "video:x:44:jiho,sora\n" in texts["group"]
    assert texts["gshadow"] == "root:*::\nvideo:*::jiho,sora\n"


def test_a_group_that_goes_is_nobody_s_and_its_number_is_free() -> None:
    data = Databases(TEXTS)
    data.remove_group("video")
    assert (data.has_group("video"), data.groups_of("jiho"), 44 in data.real_ids()) == (False, [], False)
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

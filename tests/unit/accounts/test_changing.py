"""change-user: what happens to a person's entry, and what an admin is told of it."""

from pathlib import Path

import pytest

from gpuadmin.accounts.changing import Wanted, change, describe_key, notes, on_nodes, on_site
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.schema import User
from gpuadmin.errors import ConfigError
from tests.support.sites import public_key

DESK, LAPTOP, OTHER = public_key("desk"), public_key("laptop"), public_key("other", comment="")
MINJI = User(name="minji", uid=20000, keys=[DESK, LAPTOP], email="minji@example.org", note="lab 3")
FINGERPRINT = key_fingerprint(LAPTOP.split()[1])

CASES: dict[str, tuple[Wanted, list[str]]] = {
    "in place of all": (Wanted(keys=(OTHER,)), [OTHER]),
    "one more": (Wanted(add_keys=(OTHER,)), [DESK, LAPTOP, OTHER]),
    "one that is there, under another comment": (Wanted(add_keys=(public_key("desk", comment="x"),)), [DESK, LAPTOP]),
    "gone by itself": (Wanted(remove_keys=(DESK,)), [LAPTOP]),
    "gone by its content, whatever the comment": (Wanted(remove_keys=(public_key("desk", comment="x"),)), [LAPTOP]),
    "gone by its comment": (Wanted(remove_keys=("laptop",)), [DESK]),
    "gone by its fingerprint": (Wanted(remove_keys=(FINGERPRINT,)), [DESK]),
    "one for another": (Wanted(add_keys=(OTHER,), remove_keys=("desk",)), [LAPTOP, OTHER]),
    "nothing of keys": (Wanted(email="m@example.org"), [DESK, LAPTOP]),
}


@pytest.mark.parametrize(("wanted", "keys"), CASES.values(), ids=CASES.keys())
def test_keys(wanted: Wanted, keys: list[str]) -> None:
    assert change(MINJI, wanted).keys == keys


def test_a_file_of_keys_goes(tmp_path: Path) -> None:
    (tmp_path / "old.pub").write_text(f"# hers\n{DESK}\n")
    assert change(MINJI, Wanted(remove_keys=(str(tmp_path / "old.pub"),))).keys == [LAPTOP]


BAD: dict[str, tuple[Wanted, str]] = {
    "a key that is not theirs": (Wanted(remove_keys=(OTHER,)), "has no such key"),
    "a comment that nothing has": (Wanted(remove_keys=("tablet",)), "has no such key"),
    "an empty text": (Wanted(remove_keys=("",)), "has no such key"),
    "a text that is too long for a file": (Wanted(remove_keys=("x" * 5000,)), "has no such key"),
    "gone already": (Wanted(keys=(OTHER,), remove_keys=("desk",)), "has no such key"),
    "no key": (Wanted(add_keys=("ssh-ed25519",)), "keys"),
    "no key to remove": (Wanted(remove_keys=("ssh-ed25519 AAAA",)), "--remove-key: is damaged"),
    "no address": (Wanted(email="minji"), "email"),
    "a template": (Wanted(note="{{ x }}"), "note"),
}


@pytest.mark.parametrize(("wanted", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong(wanted: Wanted, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        change(MINJI, wanted)


def test_a_comment_that_two_keys_have_is_none() -> None:
    both = MINJI.model_copy(update={"keys": [DESK, public_key("laptop", comment="desk")]})
    with pytest.raises(ConfigError, match="2 keys named 'desk'") as caught:
        change(both, Wanted(remove_keys=("desk",)))
    assert FINGERPRINT in str(caught.value.hint)


def test_an_empty_text_takes_away() -> None:
    after = change(MINJI, Wanted(email="", note=""))
    assert (after.email, after.note) == (None, None)
    assert on_site(MINJI, after) == ["minji: email minji@example.org → none", "minji: note lab 3 → none"]


def test_what_is_not_named_stays() -> None:
    assert change(MINJI, Wanted(docker=False)) == MINJI.model_copy(update={"docker": False})


def test_what_an_admin_sees() -> None:
    after = change(MINJI, Wanted(remove_keys=("desk",), add_keys=(OTHER,), docker=False))
    assert on_nodes(MINJI, after) == [
        f"minji: remove ssh key {describe_key(DESK)}",
        f"minji: add ssh key {describe_key(OTHER)}",
        "minji: no longer set up for Docker",
    ]
    assert describe_key(LAPTOP) == f"{FINGERPRINT} laptop"
    assert [note.split(" ", 3)[0] for note in notes(MINJI, after)] == ["open", "minji"]
    assert notes(MINJI, change(MINJI, Wanted(add_keys=(OTHER,), docker=True))) == []
    assert on_nodes(MINJI, MINJI) == ["minji: keys and Docker as users.yml has them"]

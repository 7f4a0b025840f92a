"""users.yml is a person's file: comments and order survive every verb, and mistakes are named where they stand."""

from datetime import date
from pathlib import Path

import pytest

from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings, User
from gpuadmin.errors import ConfigError, RefusedError
from tests.support.sites import SETTINGS, public_key, registry

MINJI, JIHO, NEW = public_key("minji"), public_key("jiho"), public_key("new")

TEXT = f"""# People of the lab. Ask Prof. Kim before you add anybody.
users:
  # first generation
  - name: minji                # the one with the cat
    uid: 20000
    email: "minji@example.org"
    keys:
      - {MINJI}   # her laptop
    expires: 2027-02-28        # end of term

  # the new ones
  - {{name: jiho, uid: 20001, keys: ["{JIHO}"]}}

  - note: fields in another order
    uid: 20002
    name: seo
# --- below: gone ---
retired:
  - {{name: old, uid: 20003, removed: 2026-02-01}}  # until 2028
"""


def comments(text: str) -> list[str]:
    return [line.partition("#")[2].strip() for line in text.splitlines() if "#" in line]


def test_an_untouched_file_is_written_as_it_was() -> None:
    file = registry(TEXT)
    assert file.changed(SETTINGS).file.text.replace('["', "[").count("\n") == TEXT.count("\n")
    assert comments(file.changed(SETTINGS).file.text) == comments(TEXT)


def test_add_lock_extend_and_remove_keep_comments_and_order() -> None:
    file = registry(TEXT)
    file = file.changed(SETTINGS, add=[User(name="yuna", uid=20004, keys=[NEW])])
    for fields in ({"locked": True}, {"expires": date(2028, 1, 1)}, {"locked": False}):
        people = [user.model_copy(update=fields) for user in file.registry.users if user.name == "jiho"]
        file = file.changed(SETTINGS, update=people)
    text = file.file.text
    assert comments(text) == comments(TEXT)
    assert [user.name for user in file.registry.users] == ["minji", "jiho", "seo", "yuna"]
    assert file.registry.users[1].expires == date(2028, 1, 1)
    assert "locked" not in text, "what is the default is not written"
    assert '"minji@example.org"' in text, "quotes are kept"

    removed = file.changed(SETTINGS, retire={"seo": None}, today=date(2026, 11, 21))
    assert [user.name for user in removed.registry.users] == ["minji", "jiho", "yuna"]
    last = removed.registry.retired[-1].model_dump(exclude_none=True)
    assert last == {"name": "seo", "uid": 20002, "removed": date(2026, 11, 21)}
    for comment in ("the one with the cat", "her laptop", "the new ones", "until 2028"):
        assert comment in removed.file.text


def test_lines_that_a_verb_does_not_mean_are_not_touched() -> None:
    file = registry(TEXT)
    locked = file.changed(SETTINGS, update=[file.registry.users[0].model_copy(update={"locked": True})])
    before, after = TEXT.splitlines(), locked.file.text.splitlines()
    assert [line for line in after if line not in before and "jiho" not in line] == ["    locked: true"]


def test_a_file_without_anybody() -> None:
    for text in ("", "users:\n", "users: []\nretired: []\n", "# nobody yet\nusers: []\n", "retired: []\n"):
        file = registry(text).changed(SETTINGS, add=[User(name="minji", uid=20000, keys=[MINJI])])
        assert [user.name for user in file.registry.users] == ["minji"], text
        assert "- name: minji" in file.file.text, "block style, one field a line"


def test_somebody_who_comes_back_is_no_longer_retired() -> None:
    file = registry(TEXT).changed(SETTINGS, add=[User(name="old", uid=20003)])
    assert file.registry.retired == []


def test_it_is_written_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "users.yml"
    path.write_text(TEXT)
    path.chmod(0o600)
    file = RegistryFile.load(path, SETTINGS).changed(SETTINGS, add=[User(name="yuna", uid=20004)])
    file.save()
    assert path.read_text() == file.file.text
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [tmp_path / "runs", path], "no temporary file is left"


def test_what_somebody_wrote_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    """The admin edits users.yml in another window while the verb asks, or looks at the hosts."""
    path = tmp_path / "users.yml"
    path.write_text(TEXT)
    file = RegistryFile.load(path, SETTINGS).changed(SETTINGS, add=[User(name="yuna", uid=20004)])
    path.write_text(edited := TEXT + "# mine\n")
    with pytest.raises(RefusedError, match="was changed meanwhile"):
        file.save()
    assert path.read_text() == edited


def person(**fields: object) -> str:
    return "  - {" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}\n"


A, B = person(name="a", uid=20000), person(name="b", uid=20000)
GONE = "users:\n" + A + "retired:\n"
MISTAKES = {
    "users:\n" + A + person(name="a", uid=20001): "users.yml:3: users[1].name: 'a' appears twice",
    "users:\n" + A + B: "users.yml:3: users[1].uid: 20000 is taken by 'a'",
    GONE + person(name="b", uid=20000, removed="2026-01-01"): "users.yml:4: retired[0].uid: 20000 is taken by 'a'",
    GONE + person(name="a", uid=20001, removed="2026-01-01"): "users.yml:4: retired[0].name: 'a' is also under users",
    "users:\n" + person(name="a", uid=1500): "users.yml:2: users[0].uid: 1500 is outside the site's range 20000-49999",
    "users:\n" + person(name="a"): "users.yml:2: users[0]: 'a' has no uid",
    "users:\n" + person(name="a", uid=20000, keys=f"['{MINJI}']") + person(name="b", uid=20001, keys=f"['{MINJI} x']"):
        "users.yml:3: users[1].keys[0]: 'a' has this ssh key already",
    "users:\n" + person(name="root", uid=20000): "users.yml:2: users[0].name: 'root' is a system",
    "users:\n" + person(name="gpuusers", uid=20000): "users[0].name: 'gpuusers' is the cluster's own",
    "users:\n" + person(name="a", uid=20000, shel="x"): "users[0].shel: there is no such field",
    "users:\n" + person(uid=20000): "users.yml:2: users[0].name: is missing",
    "users:\n" + person(name="a", uid="x"): "users.yml:2: users[0].uid: ",
    "users:\n" + person(name="a", uid=20000, note="'{{ x }}'"): "users[0].note: holds the template marker",
    "'{{ x }}': 1\nusers: []\n": "there is no such field",
    "users: minji\n": "users.yml:1: users: ",
    "users:\n  - minji\n": "users.yml:2: users[0]: must hold fields",
    "- name: a\n": "users.yml:1: must hold fields (key: value)",
    "users:\n  - 2027-02-28: a\n": "users[0].2027-02-28: a field's name must be a text; put 2027-02-28 into quotes",
    "users:\n  - name: a\n   uid: 3\n": "users.yml:3: is not valid YAML",
    "users: []\nusers: []\n": "is not valid YAML",
    "users: *x\n": "is not valid YAML",
    "users:\n" + person(name="a", uid=20000, expires="soon"): "users[0].expires: 'soon' is not a date",
    "users: !!python/object/apply:os.system ['id']\n": "users.yml",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISTAKES.items(), ids=MISTAKES.values())
def test_mistakes_name_file_line_and_path(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry(text)
    assert message in caught.value.message
    assert caught.value.exit_code == 2


def test_all_mistakes_are_named_at_once() -> None:
    text = "users:\n" + person(name="Root", uid=20000) + person(name="b", uid=5) + person(name="c", uidd=1)
    with pytest.raises(ConfigError) as caught:
        registry(text)
    for line in ("users.yml:2: users[0].name", "users.yml:3: users[1].uid", "users.yml:4: users[2].uidd"):
        assert line in caught.value.message


def test_a_directory_needs_no_uids() -> None:
    settings = Settings.model_validate({"name": "x", "accounts": {"source": "directory"}})
    assert registry("users:\n" + person(name="a"), settings).registry.users[0].uid is None


def test_people_who_share_a_value_are_written_without_anchors() -> None:
    file = registry("users:\n  - {name: minji, uid: 20000}\n  - {name: jiho, uid: 20001}\n")
    until = date(2027, 2, 28)
    people = [user.model_copy(update={"expires": until}) for user in file.registry.users]
    changed = file.changed(SETTINGS, update=people)
    assert changed.file.text.count("2027-02-28") == 2
    assert "&" not in changed.file.text


def test_whoever_is_removed_is_remembered_by_their_address() -> None:
    file = registry("users:\n  - {name: minji, uid: 20000, email: minji@example.org}\n  - {name: jiho, uid: 20001}\n")
    gone = file.changed(SETTINGS, retire={"minji": None, "jiho": None}, today=date(2026, 6, 30)).registry.retired
    assert [(entry.name, entry.email) for entry in gone] == [("minji", "minji@example.org"), ("jiho", None)]

"""add-user --from and --key: many people at once, all of them valid or none."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from gpuadmin.accounts import Request
from gpuadmin.errors import ConfigError
from gpuadmin.importing import read_keys, read_people
from tests.unit.support import public_key

KEY = public_key("minji")


def read(tmp_path: Path, name: str, text: str | bytes) -> list[Request]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_people(str(path))


MINJI = Request("minji", uid=20000, email="minji@example.org", keys=(KEY,), expires=date(2027, 2, 28), docker=False)

GOOD = {
    "all columns": ("a.csv", f"name,uid,email,key,expires,docker\nminji,20000,minji@example.org,{KEY},2027-02-28,no\n"),
    "other order, a BOM, blanks, CRLF": (
        "a.csv",
        "\ufeffdocker , Name, email,uid,expires,key\r\n"
        f"아니오, minji,minji@example.org ,20000,2027-02-28,{KEY}\r\n",
    ),
    "quoted": (
        "a.csv",
        f'"name","uid","email","key","expires","docker"\n"minji",20000,minji@example.org,"{KEY}",2027-02-28,0\n',
    ),
    "YAML": (
        "a.yml",
        f"users:\n  - name: minji\n    uid: 20000\n    email: minji@example.org\n    keys: ['{KEY}']\n"
        "    expires: 2027-02-28\n    docker: false\n",
    ),
    "YAML that begins as YAML should": (
        "a.yml",
        f"---\n# new people\nusers:\n  - {{name: minji, uid: 20000, email: minji@example.org, keys: ['{KEY}'],\n"
        "     expires: 2027-02-28, docker: false}\n",
    ),
    "a bare YAML list that begins so": (
        "a.yml",
        f"---\n- {{name: minji, uid: 20000, email: minji@example.org, keys: ['{KEY}'],\n"
        "   expires: 2027-02-28, docker: false}\n",
    ),
    "a bare YAML list": (
        "a.yaml",
        f"- {{name: minji, uid: 20000, email: minji@example.org, keys: ['{KEY}'],\n"
        "   expires: '2027-02-28', docker: no}\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), GOOD.values(), ids=GOOD.keys())
def test_the_same_person_from_every_format(tmp_path: Path, name: str, text: str) -> None:
    assert read(tmp_path, name, text) == [MINJI]


def test_what_is_left_empty_is_not_said(tmp_path: Path) -> None:
    assert read(tmp_path, "a.csv", "name,uid,email,note\nminji,,,\n") == [Request("minji")]
    assert read(tmp_path, "a.csv", "name\nminji\n\njiho\n") == [Request("minji"), Request("jiho")]


BAD = {
    "hostile names": (
        "a.csv", "name\n../x\n-rf\nroot\na b\n{{ x }}\n민지\n" + "a" * 33 + "\n",
        [f"a.csv:{line}: " for line in range(2, 9)],
    ),
    "a key with options": ("a.csv", f'name,key\nminji,"command=""id"" {KEY}"\n', ["a.csv:2: ", "key with options"]),
    "a newline in a field": ("a.csv", 'name,note\nminji,"a\nb"\n', ["a.csv:3: ", "control character"]),
    "unknown column": ("a.csv", "name,shell\nminji,/bin/sh\n", ["a.csv:1: unknown column 'shell'"]),
    "no name column": ("a.csv", "email\nminji@example.org\n", ["a.csv:1: no column 'name'"]),
    "empty": ("a.csv", "", ["a.csv:1: no column 'name'"]),
    "nobody": ("a.csv", "name\n", ["names nobody"]),
    "too many fields": ("a.csv", "name,uid\nminji,20000,x\n", ["a.csv:2: has another number of columns"]),
    "too few fields": ("a.csv", "name,uid\nminji\n", ["a.csv:2: has another number of columns"]),
    "uid in words": ("a.csv", "name,uid\nminji,many\n", ["a.csv:2: uid: 'many' is not a number"]),
    "negative uid": ("a.csv", "name,uid\nminji,-1\n", ["a.csv:2: uid: '-1' is not a number"]),
    "superscript uid": ("a.csv", "name,uid\nminji,²\n", ["a.csv:2: uid: '²' is not a number"]),
    "docker maybe": ("a.csv", "name,docker\nminji,maybe\n", ["a.csv:2: docker: 'maybe' is neither yes nor no"]),
    "bad date": ("a.csv", "name,expires\nminji,28.2.2027\n", ["a.csv:2: ", "expires", "not a date"]),
    "no name in a row": ("a.csv", "name,uid\n,20000\n", ["a.csv:2: ", "no user name"]),
    "an open quote": ("a.csv", 'name\n"minji\n', ["is not valid CSV"]),
    "not UTF-8": ("a.csv", "name\n민지\n".encode("euc-kr"), ["is not UTF-8"]),
    "YAML, no list": ("a.yml", "people: []\n", ["must hold a list of people"]),
    "YAML, not a person": ("a.yml", "users: [minji]\n", ["must be a person with fields"]),
    "YAML, hostile": ("a.yml", "users:\n  - name: minji\n  - name: '../x'\n", ["a.yml:3: ", "'../x'"]),
    "YAML, unknown field": ("a.yml", "- {name: minji, groups: [sudo]}\n", ["groups"]),
    "YAML, a template": ("a.yml", "- {name: minji, uid: {{ x }}}\n", ["a.yml"]),
    "YAML, a locked newcomer": ("a.yml", "- {name: minji, locked: true}\n", ["a.yml:1: [0]: 'minji': locked: "]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "words"), BAD.values(), ids=BAD.keys())
def test_mistakes_name_file_and_line(tmp_path: Path, name: str, text: str | bytes, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, name, text)
    for word in words:
        assert word in caught.value.message


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_people(str(tmp_path / "none.csv"))


def test_keys_are_given_as_text_or_as_files(tmp_path: Path) -> None:
    file = tmp_path / "keys.pub"
    second = public_key("desk")
    file.write_text(f"# laptop\n{KEY}\n\n{second}\n")
    assert read_keys([str(file)]) == (KEY, second)
    assert read_keys([KEY, second]) == (KEY, second)


@pytest.mark.parametrize("given", ["none.pub", "-rf", "", "a\nb", "x" * 5000, "ssh-dss AAAA"])
def test_what_is_neither(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="neither a public key nor a file"):
        read_keys([given])


def test_a_file_without_a_key(tmp_path: Path) -> None:
    file = tmp_path / "empty.pub"
    file.write_text("# nothing\n")
    with pytest.raises(ConfigError, match="holds no key"):
        read_keys([str(file)])

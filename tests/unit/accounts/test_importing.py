"""add-user --from and --key: many people at once, all of them valid or none."""

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from gpuadmin.accounts.importing import read_keys, read_people
from gpuadmin.accounts.requests import Request
from gpuadmin.errors import ConfigError
from tests.support.sites import public_key

pytestmark = pytest.mark.holds(
    "newcomers are not locked",
    "a file is read to a bound",
    "aliases stand for a bounded number of values",
    "an alias does not stand in what it stands for",
)


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
    (person,) = read(tmp_path, "a.csv", "name,note\r\nminji,김민지\r\n".encode("cp949"))  # as Korean Excel writes it
    assert person.note == "김민지"


BAD = {
    "hostile names": (
        "a.csv", "name\n../x\n-rf\nroot\na b\n{{ x }}\n민지\n" + "a" * 33 + "\n",
        [f"a.csv:{line}: " for line in range(2, 9)],
    ),
    "a key with options": ("a.csv", f'name,key\nminji,"command=""id"" {KEY}"\n', ["a.csv:2: ", "key with options"]),
    "a newline in a field": ("a.csv", 'name,note\nminji,"a\nb"\n', ["a.csv:3: ", "control character"]),
    "unknown column": ("a.csv", "name,shell\nminji,/bin/sh\n", ["a.csv:1: unknown column 'shell'"]),
    "no name column": ("a.csv", "email\nminji@example.org\n", ["a.csv:1: no column 'name'"]),
    "another file": ("shadow", "root:$y$secret:1::\n", ["shadow:1: no column 'name'"]),
    "empty": ("a.csv", "", ["a.csv:1: no column 'name'"]),
    "nobody": ("a.csv", "name\n", ["names nobody"]),
    "too many fields": ("a.csv", "name,uid\nminji,20000,x\n", ["a.csv:2: has another number of columns"]),
    "too few fields": ("a.csv", "name,uid\nminji\n", ["a.csv:2: has another number of columns"]),
    "uid in words": ("a.csv", "name,uid\nminji,many\n", ["a.csv:2: uid: 'many' is not a number"]),
    "negative uid": ("a.csv", "name,uid\nminji,-1\n", ["a.csv:2: uid: '-1' is not a number"]),
    "superscript uid": ("a.csv", "name,uid\nminji,²\n", ["a.csv:2: uid: '²' is not a number"]),
    "a uid of many digits": ("a.csv", "name,uid\nminji," + "9" * 5000 + "\n", ["a.csv:2: uid: '999", "not a number"]),
    "docker maybe": ("a.csv", "name,docker\nminji,maybe\n", ["a.csv:2: docker: 'maybe' is neither yes nor no"]),
    "all that is wrong with a row": (
        "a.csv", "name,email,expires\nMinji,nowhere,2027-02-30\n",
        ["a.csv:2: ", "not a user name", "not an e-mail address", "does not exist"],
    ),
    "a key's file": (
        "a.csv", "name,key\nminji,keys/minji.pub\n",
        ["a.csv:2: 'minji': key: is a file's path; a key is what the .pub file holds"],
    ),
    "more people than a site has": ("a.csv", "name\n" + "a\n" * 20_001, ["holds more than 20000 people"]),
    "bad date": ("a.csv", "name,expires\nminji,28.2.2027\n", ["a.csv:2: ", "expires", "not a date"]),
    "no name in a row": ("a.csv", "name,uid\n,20000\n", ["a.csv:2: ", "not a user name"]),
    "an open quote": ("a.csv", 'name\n"minji\n', ["is not valid CSV"]),
    "neither UTF-8 nor CP949": ("a.csv", b"name\n\xff\xff\n", ["is neither of utf-8, cp949"]),
    "YAML in CP949": ("a.yml", "- name: a\n  note: 민지\n".encode("cp949"), ["a.yml:2: is not UTF-8"]),
    "YAML, no list": ("a.yml", "people: []\n", ["must hold a list of people"]),
    "YAML, not a person": ("a.yml", "users: [minji]\n", ["must be a person with fields"]),
    "YAML, hostile": ("a.yml", "users:\n  - name: minji\n  - name: '../x'\n", ["a.yml:3: ", "'../x'"]),
    "YAML, unknown field": ("a.yml", "- {name: minji, groups: [sudo]}\n", ["groups"]),
    "YAML, a template": ("a.yml", "- {name: minji, uid: {{ x }}}\n", ["a.yml"]),
    "YAML, no such day": ("a.yml", "- {name: minji, expires: 2027-02-31}\n", ["a.yml:1: ", "'2027-02-31' is a day"]),
    "YAML, an alias in itself": ("a.yml", "- &a [*a]\n", ["a.yml:1: is not valid YAML: ", "is in the value"]),
    "YAML, an anchor within an anchor": (
        "a.yml", "- &a {name: x, keys: [&b z, *b, *a]}\n", ["a.yml:1: is not valid YAML: "],
    ),
    "a terminal's codes in a note": ("a.csv", "name,note\nminji,a\u202eb\n", ["a.csv:2: ", "invisible", "U+202E"]),
    "YAML, a locked newcomer": ("a.yml", "- {name: minji, locked: true}\n", ["a.yml:1: [0]: 'minji': locked: "]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "words"), BAD.values(), ids=BAD.keys())
def test_mistakes_name_file_and_line(tmp_path: Path, name: str, text: str | bytes, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, name, text)
    for word in words:
        assert word in caught.value.message


def bomb(levels: int = 9, breadth: int = 9) -> str:
    """YAML in which each of some lines stands for nine of the one before."""
    lines = ["a0: &a0 [" + ", ".join(["x"] * breadth) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * breadth) + "]" for n in range(1, levels)]
    return "\n".join([*lines, f"users: [{{name: minji, keys: *a{levels - 1}}}]"]) + "\n"


SMALL = 512 * 1024 * 1024  # bytes of address space; Python and pydantic take 150 MB of it

READERS = {
    "--from": ("gpuadmin.accounts.importing", "read_people(sys.argv[1])"),
    "a file of the site": ("gpuadmin.config.yamlfile", "YamlFile.load(Path(sys.argv[1]))"),
    "the inventory": ("gpuadmin.config.inventory", "load_inventory(Path(sys.argv[1]).parents[1])"),
}
FILES = {
    "an alias bomb": (bomb, "aliases"),
    "too many values": (lambda: "users: [" + "a," * 250_000 + "]\n", "holds more than"),
    "too large": (lambda: "# x\n" * 5_000_000, "is larger than 16 MiB"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("file", FILES)
def test_no_file_takes_the_memory(tmp_path: Path, reader: str, file: str) -> None:
    module, call = READERS[reader]
    make, words = FILES[file]
    path = tmp_path / "inventory" / "people.yml"
    path.parent.mkdir()
    path.write_text(make())
    program = f"""
import resource, sys
from pathlib import Path
from {module} import *
from gpuadmin.errors import ConfigError
resource.setrlimit(resource.RLIMIT_AS, ({SMALL},) * 2)
try:
    {call}
except ConfigError as error:
    print(error.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "people.yml" in done.stdout
    assert words in done.stdout


def test_few_aliases_are_what_they_stand_for(tmp_path: Path) -> None:
    found = read(tmp_path, "a.yml", f"- {{name: minji, keys: &mine ['{KEY}']}}\n- {{name: jiho, keys: *mine}}\n")
    assert [person.keys for person in found] == [(KEY,), (KEY,)]


def test_a_file_without_an_end(tmp_path: Path) -> None:
    with (tmp_path / "endless.csv").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ConfigError, match=r"endless.csv: is larger than 16 MiB"):
        read_people(str(tmp_path / "endless.csv"))
    with pytest.raises(ConfigError, match="No such file"):
        read_people(str(tmp_path / "none.csv"))
    with pytest.raises(ConfigError, match="/dev/zero: is a device, where a regular file has to be"):
        read_people("/dev/zero")
    with pytest.raises(ConfigError, match="neither a public key nor a file"):
        read_keys(["/dev/zero"])


def test_keys_are_given_as_text_or_as_files(tmp_path: Path) -> None:
    file = tmp_path / "keys.pub"
    second = public_key("desk")
    file.write_text(f"# laptop\n{KEY}\n\n{second}\n")
    assert read_keys([str(file)]) == (KEY, second)
    assert read_keys([KEY, second]) == (KEY, second)


def test_the_way_out_of_utf16_can_be_pasted(tmp_path: Path) -> None:
    file = tmp_path / "my key.pub"
    file.write_bytes(f"{KEY}\r\n".encode("utf-16"))
    with pytest.raises(ConfigError) as caught:
        read_keys([str(file)])
    assert f"iconv -f UTF-16 -t UTF-8 '{file}' > '{file}'.utf-8" in str(caught.value.hint)


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

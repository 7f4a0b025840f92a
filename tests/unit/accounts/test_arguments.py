"""What is wrong with an argument names the argument, and no line of a file that nobody has written yet."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.support.sites import UIDS, public_key
from tests.support.verbs import fail

Cli = Callable[..., tuple[int, str, str]]
MINJI, YUNA = public_key("minji"), public_key("yuna")
USERS = f"""\
users:
  - name: minji
    uid: 20000
    keys: [{MINJI}]
    expires: 2027-02-28
  - name: yuna
    uid: 20001
    keys: [{YUNA}]
"""


@pytest.fixture
def people(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (site / "users.yml").write_text(USERS)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    answer = {name: HostResult("ok", reports={"users": {}, "uids": UIDS}) for name in ("storage1", "node1", "node2")}
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda invocation, **_: RunResult(answer))
    return site


@pytest.mark.parametrize("name", ["minji", "yuna"])
def test_a_key_that_is_somebody_else_s(people: Path, cli: Cli, name: str) -> None:
    """Whoever comes first in the file."""
    key, owner = (YUNA, "yuna") if name == "minji" else (MINJI, "minji")
    for option in ("--add-key", "--key"):
        code, _, err = cli("change-user", name, option, key, "--check")
        assert (code, f"Error: {option}: '{name}': '{owner}' has this ssh key already" in err) == (2, True), err
        assert "users.yml:" not in err
    assert (people / "users.yml").read_text() == USERS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--uid", "1000"), "--uid: 'seo': 1000 is outside the site's range 20000-49999"),
        (("--uid", "20001"), "--uid: 'seo': 20001 is taken by 'yuna'"),
        (("--key", MINJI), "--key: 'seo': 'minji' has this ssh key already"),
    ],
)
def test_what_a_newcomer_cannot_have(people: Path, cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    code, _, err = cli("add-user", "seo", *arguments, "--check")
    assert (code, f"Error: {words}" in err, "users.yml:" in err) == (2, True, False), err
    assert "nothing was changed" in err


def test_a_file_of_people_is_named_with_the_person(people: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("name,uid\nseo,1000\n")
    code, _, err = cli("add-user", "--from", str(tmp_path / "new.csv"), "--check")
    assert (code, "Error: uid: 'seo': 1000 is outside" in err) == (2, True), err


def test_a_day_is_a_day_in_a_sentence(people: Path, cli: Cli) -> None:
    code, _, err = cli("add-user", "minji", "--expires", "2028-02-28", "--check")
    assert (code, "'minji' is registered already, with another expires (2027-02-28)" in err) == (2, True), err
    assert "with other keys (1 ssh key)" in fail(cli, 2, "add-user", "minji", "--key", public_key("other"), "--check")
    assert "with another docker (yes)" in fail(cli, 2, "add-user", "yuna", "--no-docker", "--check")


def test_the_plan_says_whether_somebody_is_new(people: Path, cli: Cli) -> None:
    assert "Add 1 account to test" in cli("add-user", "seo", "--check")[1]
    again = cli("add-user", "minji", "--check")[1]
    assert "Bring 1 account that is registered already to all hosts of test" in again
    assert "Add" not in again
    both = cli("add-user", "minji", "seo", "--check")[1]
    assert "Add 1 account to test, and bring 1 that is registered already to all hosts" in both


@pytest.mark.needs("ssh-keygen")
def test_a_private_key_is_one_sentence(people: Path, cli: Cli, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    for arguments in (("add-user", "seo", "--key"), ("change-user", "minji", "--add-key")):
        err = fail(cli, 2, *arguments, str(tmp_path / "key"), "--check")
        assert f"{arguments[-1]} {tmp_path}/key: is a private key, which must not be handed over" in err
        assert f"Hint: the public one is {tmp_path}/key.pub" in err
        assert len(err.splitlines()) == 2, err


def test_a_file_that_holds_no_keys_is_one_sentence_with_its_line(people: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# mine\n{public_key('a')}\nhello\nworld\n")
    err = fail(cli, 2, "add-user", "seo", "--key", str(tmp_path / "keys"), "--check")
    assert f"--key {tmp_path}/keys:3: does not begin with a known key type" in err
    assert len(err.splitlines()) == 2, err


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (("\ufeff" + public_key("a") + "\r\n").encode("utf-16-le"), "it may be UTF-16; save it as UTF-8, or: iconv -f"),
        (b'---- BEGIN SSH2 PUBLIC KEY ----\nComment: "x"\n', "as PuTTY saves it (RFC 4716); ssh-keygen -i -f FILE"),
        (b"ssh-ed25519-cert-v01@openssh.com AAAA x\n", ":1: is a certificate; give the key that was signed"),
    ],
    ids=["PowerShell's >", "PuTTYgen", "a certificate"],
)
def test_keys_as_windows_makes_them(people: Path, cli: Cli, tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "k.pub").write_bytes(raw)
    assert words in fail(cli, 2, "add-user", "seo", "--key", str(tmp_path / "k.pub"), "--check")


def test_a_key_after_a_byte_order_mark(people: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "k.pub").write_text(f"\ufeff{public_key('a')}\r\n", encoding="utf-8")
    assert cli("add-user", "seo", "--key", str(tmp_path / "k.pub"), "--check")[0] == 0


def test_list_users_says_the_sentence_of_a_conflict(people: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"status": "conflict", "operations": [], "problem": "/home/minji belongs to uid 1004"}
    hosts = {
        name: HostResult("ok", reports={"users": {"minji": entry, "yuna": {"status": "ok"}}})
        for name in ("storage1", "node1", "node2")
    }
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda invocation, **_: RunResult(hosts))
    out = cli("list-users")[1]
    assert "minji on storage1, node1, node2: /home/minji belongs to uid 1004" in " ".join(out.split())


def test_somebody_without_a_key_is_given_one_by_the_verb_that_takes_it(people: Path, cli: Cli) -> None:
    """Once they are registered, `add-user --key` is refused."""
    _, out, _ = cli("add-user", "seo", "--check")
    assert "gpuadmin change-user NAME --add-key FILE.pub gives one" in " ".join(out.split())

"""An account as a host has it, and which lines of sshd's are about somebody."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import account
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Failed publickey for minji from 10.0.0.1 port 1", True),
        ("User minji from 10.0.0.1 not allowed because account is locked", True),
        ("Authentication refused: bad ownership or modes for directory /home/minji", True),
        ("pam_unix(sshd:account): account minji has expired (account expired)", True),
        ("Failed publickey for minji2 from 10.0.0.1 port 1", False),
        ("Failed publickey for minji-2 from 10.0.0.1 port 1", False),
        ("Connection closed by 10.0.0.1", False),
        ("fatal: Access denied for user minji by PAM account configuration [preauth]", True),
        ("error: maximum authentication attempts exceeded for minji from 10.0.0.1 port 1 ssh2 [preauth]", True),
        ("Connection closed by authenticating user minji 10.0.0.1 port 1 [preauth]", True),
        ("Accepted publickey for minji from 10.0.0.1 port 1 ssh2: ED25519 SHA256:x", True),
        ("pam_unix(sshd:session): session opened for user minji(uid=20000) by (uid=0)", True),
        ("pam_sss(sshd:account): Access denied for user minji: 6 (Permission denied)", True),
        # what a client says
        ("Invalid user user minji not allowed because x from 10.0.0.1 port 1", False),
        ("Invalid user x from y: User minji from 10.0.0.1 not allowed because from 10.0.0.1 port 1", False),
        ("Failed publickey for invalid user user minji not allowed because from 10.0.0.1 port 1", False),
        ("Received disconnect from 10.0.0.1 port 1:11: user minji not allowed because x [preauth]", False),
        ("Bad protocol version identification 'user minji not allowed because x' from 10.0.0.1 port 1", False),
        ("Unable to negotiate with 10.0.0.1 port 1: no matching cipher found. Their offer: for minji", False),
    ],
)
def test_lines_about_somebody(line: str, named: bool) -> None:
    assert bool(account.pick_lines("minji", f"2026-11-23T01:00:00+0000 node1 sshd[1]: {line}")) is named


def test_the_last_lines_are_kept_and_cut() -> None:
    found = account.pick_lines("minji", "\n".join(f"{n} node1 sshd[1]: User minji {'x' * 1000}" for n in range(100)))
    assert len(found) == account.KEPT_LINES
    assert found[-1].startswith("99 ")
    assert all(len(line) <= 300 for line in found)


@pytest.mark.parametrize(
    "words", ["allowusers {}\nport 22\npubkeyauthentication", "AllowUsers {}\nPort 22\nPubkeyAuthentication"]
)
def test_sshd_settings(words: str) -> None:
    def run(_: object) -> Finished:
        return Finished((), 0, "allowusers jiho\n" + words.format("yuna") + " yes\n", "")

    assert account.ask_settings("minji", run) == {"allowusers": "jiho yuna", "pubkeyauthentication": "yes"}


def test_sshd_that_refuses_its_settings() -> None:
    with pytest.raises(NodeError, match="line 3: Bad configuration option"):
        account.ask_settings("minji", lambda _: Finished((), 255, "", "x\nline 3: Bad configuration option\n"))


def test_nologin(tmp_path: Path) -> None:
    subject = Subject(root=str(tmp_path))
    assert account.nologin(subject) is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nologin").write_text("until \x1b[2JMonday\n")
    assert account.nologin(subject) == {"file": "/etc/nologin", "words": "until ?[2JMonday"}


@pytest.mark.parametrize(
    ("own", "listed", "files"),
    [
        (False, ".ssh/authorized_keys .ssh/authorized_keys2", [".ssh/authorized_keys", ".ssh/authorized_keys2"]),
        (False, "/var/lib/gpuadmin/keys/%u %h/k/%u /etc/keys/%u", ["k/minji"]),
        (False, "none", []),
        (True, "none", [".ssh/authorized_keys", ".ssh/authorized_keys2"]),  # sshd answers root alone
    ],
)
def test_where_in_a_home_keys_are(monkeypatch: pytest.MonkeyPatch, own: bool, listed: str, files: list[str]) -> None:
    monkeypatch.setattr(account, "ask_sshd", lambda *_: {"authorizedkeysfile": [listed]})
    assert account.home_key_files(Subject(name="minji", own=own)) == files


@pytest.mark.parametrize(("listed", "read"), [("/var/lib/gpuadmin/keys/%u .ssh/x", True), ("{}/%u", False)])
def test_keys_that_are_neither_the_sites_nor_in_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, read: bool
) -> None:
    (tmp_path / "root").write_text("ssh-ed25519 x\n")
    settings = {"authorizedkeysfile": listed.format(tmp_path)}
    monkeypatch.setattr(account, "ask_settings", lambda name: settings)
    found = account.sshd_keys(Subject(name="root"))
    assert found["site"]["read"] is read
    assert [one["path"] for one in found["elsewhere"]] == ([] if read else [f"{tmp_path}/root"])

"""What sshd prints of its settings, and what gpuadmin's file of them says, only if it shuts nobody out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import sshd_keys
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import operations
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished
from ansible_collections.gpuadmin.node.plugins.module_utils.sshd_settings import (
    ask_sshd,
    expand_pattern,
    key_patterns,
    printed,
    reads_directory,
)

from gpuadmin.common.records.files import FilesOrder
from tests.support.failing import raising
from tests.support.sites import public_key

OURS, SITE = "10-gpuadmin.conf", "/var/lib/gpuadmin/keys/%u"
DEFAULTS = {"authorizedkeysfile": ".ssh/authorized_keys .ssh/authorized_keys2", "usepam": "no"}
INCLUDE = "Include /etc/ssh/sshd_config.d/*.conf\n"
#: What provision wrote until 0.1.0, and what the issue's program writes.
OLD = f"AuthorizedKeysFile {SITE} .ssh/authorized_keys\nUsePAM yes\n"


def sshd(command: Sequence[str]) -> Finished:
    """sshd -T as far as these tests go: the first value counts, a Match holds to the end of its file and overrides."""
    arguments = list(command[1:])
    assert arguments[:2] == ["-T", "-f"]
    user = arguments[4].partition(",")[0][len("user=") :] if "-C" in arguments else None
    found: dict[str, str] = {}
    matched: dict[str, str] = {}

    def read(path: str) -> None:
        holds, into = True, found
        for line in Path(path).read_text().splitlines():
            keyword, _, value = line.strip().partition(" ")
            if keyword == "Match":
                holds, into = value == f"User {user}", matched
            elif keyword == "Include" and holds:
                for one in sorted(Path(value).parent.glob(Path(value).name)):
                    read(str(one))
            elif keyword == "Bad":
                raise NodeError(f"{path}: line 1: Bad configuration option: Bad")
            elif keyword and holds:
                into.setdefault(keyword.lower(), value)

    read(arguments[2])
    text = "".join(f"{keyword} {value}\n" for keyword, value in {**DEFAULTS, **found, **matched}.items())
    return Finished((), 0, text, "")


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "etc/ssh/sshd_config.d"
        self.directory.mkdir(parents=True)
        self.main = root / "etc/ssh/sshd_config"
        self.main.write_text(f"{INCLUDE}UsePAM yes\n")
        people = "".join(f"{one}:x:{2000 + at}:100::/home/{one}:/bin/sh\n" for at, one in enumerate(("minji", "jiho")))
        (root / "etc/passwd").write_text(f"{people}daemon:x:1:1::/:/usr/sbin/nologin\n")
        (root / "etc/shadow").write_text("minji:*:1:0:99999:7:::\njiho:*:1:0:99999:7:::\n")
        (root / "bin").mkdir()
        (root / "bin/sh").touch(0o755)

    def write(self, **files: str) -> Host:
        for name, text in files.items():
            (self.directory / f"{name.replace('_', '-').lstrip('-')}.conf").write_text(text)
        return self

    def text(self) -> str:
        return sshd_keys.plan_text(str(self.root), sshd)

    def list(self) -> str:
        return next(line for line in self.text().splitlines() if line.startswith("AuthorizedKeysFile")).partition(" ")[
            2
        ]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(sshd_keys.pam_account, "verdict", lambda name: {"refused": False, "aged": False, "words": ""})
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("files", "listed"),
    [
        ({}, f"{SITE} .ssh/authorized_keys .ssh/authorized_keys2"),
        ({"_10_gpuadmin": OLD}, f"{SITE} .ssh/authorized_keys .ssh/authorized_keys2"),  # what an older one left out
        ({"_50_site": "AuthorizedKeysFile /etc/keys/%u"}, f"{SITE} /etc/keys/%u"),
        ({"_50_site": "AuthorizedKeysFile none"}, SITE),
        ({"_05_site": f"AuthorizedKeysFile {SITE} /etc/keys/%u"}, f"{SITE} /etc/keys/%u"),
        ({"_50_site": f"AuthorizedKeysFile /etc/keys/%u {SITE}"}, f"/etc/keys/%u {SITE}"),
        ({"_50_site": "Match User jiho\nAuthorizedKeysFile /etc/jiho"},
         f"{SITE} .ssh/authorized_keys .ssh/authorized_keys2"),
    ],
)  # fmt: skip
def test_the_hosts_own_list_is_kept(host: Host, files: dict[str, str], listed: str) -> None:
    assert host.write(**files).list() == listed


def test_a_second_time_says_the_same(host: Host) -> None:
    text = host.text()
    host.write(_10_gpuadmin=text)
    assert host.text() == text


def test_a_file_that_speaks_before_ours(host: Host) -> None:
    host.write(_05_site="AuthorizedKeysFile /etc/keys/%u")
    with pytest.raises(NodeError, match=r"05-site.conf says AuthorizedKeysFile /etc/keys/%u before .*Put /var/lib/"):
        host.text()
    host.write(_05_site="")
    host.main.write_text(f"authorizedkeysfile=/etc/keys/%u\nAuthorizedKeysFile /etc/keys/%u\n{INCLUDE}UsePAM yes\n")
    with pytest.raises(NodeError, match=r"keys of users.yml: /etc/ssh/sshd_config says"):
        host.text()


def test_pam_that_another_file_leaves_out(host: Host) -> None:
    host.write(_05_site="UsePAM no")
    with pytest.raises(NodeError, match=r"expired account would get in by its key: .*05-site.conf says UsePAM no"):
        host.text()


def test_whom_pam_would_refuse_keeps_the_host_as_it_is(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def verdict(name: str) -> dict[str, object]:
        asked.append(name)
        return {"refused": name == "jiho", "aged": True, "words": "new one required"}

    monkeypatch.setattr(sshd_keys, "each", lambda ask, names, *_, **__: [(one, ask(one)) for one in names])
    monkeypatch.setattr(sshd_keys.pam_account, "verdict", verdict)
    host.text()
    assert asked == []  # PAM is asked already: nothing changes for anybody
    host.main.write_text(INCLUDE)
    with pytest.raises(NodeError, match=r"would shut out who can log in now: jiho \(PAM: new one required\)\. Correct"):
        host.text()
    assert asked == ["minji", "jiho"]
    (host.root / "etc/shadow").write_text("minji:*:1:0:99999:7:::\njiho:!:1:0:99999:7::1:\n")
    assert "UsePAM yes" in host.text()  # jiho cannot log in without PAM, either


def test_who_is_kept_out_already_keeps_no_host_from_a_newer_file(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshd_keys.pam_account, "verdict", lambda _: {"refused": True, "aged": False, "words": "no"})
    host.main.write_text(INCLUDE)
    assert "UsePAM yes" in host.write(_10_gpuadmin=OLD).text()


def test_where_pam_cannot_be_asked_nothing_changes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshd_keys.pam_account, "verdict", raising(OSError(0, "PAM cannot be asked")))
    host.main.write_text(INCLUDE)
    with pytest.raises(NodeError, match=r"now: jiho, minji \(PAM does not answer: PAM cannot be asked\)"):
        host.text()


def test_people_whose_list_would_lose_a_file(host: Host) -> None:
    (host.root / "now").write_text("Match User jiho\nAuthorizedKeysFile /etc/jiho\n")
    (host.root / "then").write_text(f"AuthorizedKeysFile {SITE}\n")
    host.write(_50_site="Match User jiho\nAuthorizedKeysFile /etc/jiho")  # people are asked about one by one
    now, then = str(host.root / "now"), str(host.root / "then")
    assert sshd_keys.find_lost(str(host.root), now, then, sshd) == {
        "minji": "sshd would not read keys from .ssh/authorized_keys, .ssh/authorized_keys2 any more",
        "jiho": "sshd would not read keys from /etc/jiho any more",
    }


def test_settings_that_sshd_refuses_are_named_by_their_own_file(host: Host) -> None:
    host.write(_50_site="Bad thing")
    with pytest.raises(NodeError, match=r"^/etc/ssh/sshd_config.d/50-site.conf: line 1: Bad configuration option"):
        host.text()


def test_a_host_that_does_not_read_the_directory(host: Host) -> None:
    host.main.write_text("UsePAM yes\n")
    with pytest.raises(NodeError, match=r"does not include /etc/ssh/sshd_config.d/"):
        host.text()


def test_the_operation_writes_the_file_and_has_sshd_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[FilesOrder, bool]] = []
    monkeypatch.setattr(sshd_keys, "plan_text", lambda settings: f"text{settings}")
    monkeypatch.setattr(operations, "ensure_files", lambda document, check: asked.append((document, check)))
    operations.ensure_sshd_keys(operations.SshdKeys({"Banner": "none"}), True)
    ((document, check),) = asked
    assert check
    assert [(one.path, one.content) for one in document.files] == [
        (f"/etc/ssh/sshd_config.d/{OURS}", "text(('Banner', 'none'),)")
    ]
    assert document.after == [("systemctl", "try-reload-or-restart", "ssh.service")]


def test_each_keyword_in_lower_case_with_its_value_as_it_is() -> None:
    assert list(printed("port 22\nPermitRootLogin no\nAcceptEnv LANG LC_*\nBanner\n")) == [
        ("port", "22"), ("permitrootlogin", "no"), ("acceptenv", "LANG LC_*"), ("banner", ""),
    ]  # fmt: skip


def test_the_error_is_sshds_own() -> None:
    words = "/etc/ssh/sshd_config: line 3: Bad configuration option: Foo\n/etc/ssh/sshd_config: terminating, 1 bad\n"
    with pytest.raises(NodeError, match=r"line 3: Bad configuration option: Foo$"):
        ask_sshd(run=lambda _: Finished((), 255, "", words))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".ssh/authorized_keys", "/home/minji/.ssh/authorized_keys"),
        ("%h/.keys", "/home/minji/.keys"),
        ("/etc/keys/%u-%U%%", "/etc/keys/minji-20001%"),
    ],
)
def test_where_a_pattern_leads(pattern: str, path: str) -> None:
    assert expand_pattern(pattern, "minji", 20001, "/home/minji") == path


@pytest.mark.parametrize(
    ("settings", "patterns"),
    [({"authorizedkeysfile": ["a b"]}, ["a", "b"]), ({"authorizedkeysfile": ["none"]}, []), ({}, [])],
)
def test_patterns(settings: dict[str, list[str]], patterns: list[str]) -> None:
    assert key_patterns(settings) == patterns


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("Include /etc/ssh/sshd_config.d/*.conf", True),
        ("  include /usr/x.conf sshd_config.d/*.conf", True),  # a relative one is below /etc/ssh
        ("# Include /etc/ssh/sshd_config.d/*.conf", False),
        ("Include /opt/etc/ssh/sshd_config.d/*.conf", False),
        ("Include /etc/ssh/other.d/*.conf", False),
    ],
)
def test_whether_the_directory_is_included(tmp_path: Path, line: str, reads: bool) -> None:
    path = tmp_path / "sshd_config"
    path.write_text(f"Port 22\n{line}\n")
    assert reads_directory(str(path)) is reads


SET = (("PasswordAuthentication", "no"), ("ChannelTimeout", "session:shell=60m"))


@pytest.mark.holds("a setting that sshd would not take is not taken for set")
def test_further_settings_of_the_sites(host: Host) -> None:
    host.write(_50_site="PasswordAuthentication yes")  # ours comes first
    text = sshd_keys.plan_text(str(host.root), sshd, SET)
    assert text.endswith("UsePAM yes\nPasswordAuthentication no\nChannelTimeout session:shell=60m\n")
    host.write(_05_site="ChannelTimeout none")
    with pytest.raises(
        NodeError, match=r"/05-site.conf sets ChannelTimeout before gpuadmin's file sets it to session:"
    ):
        sshd_keys.plan_text(str(host.root), sshd, SET)


@pytest.mark.holds("who has a password alone is not shut out")
@pytest.mark.parametrize(
    ("hashed", "key", "before", "out"),
    [
        ("$y$x", None, "PasswordAuthentication yes", True),
        ("$y$x", None, "KbdInteractiveAuthentication yes", True),
        ("$y$x", "var/lib/gpuadmin/keys/jiho", "PasswordAuthentication yes", False),
        ("$y$x", "home/jiho/.ssh/authorized_keys", "PasswordAuthentication yes", False),
        ("!$y$x", None, "PasswordAuthentication yes", False),  # no password lets them in now
        ("*", None, "PasswordAuthentication yes", False),
        ("$y$x", None, "PasswordAuthentication no", False),
        ("$y$x", None, "PasswordAuthentication yes\nMatch User minji\nPasswordAuthentication no", True),
    ],
)
def test_whoever_has_a_password_and_no_key(
    host: Host, monkeypatch: pytest.MonkeyPatch, hashed: str, key: str | None, before: str, out: bool
) -> None:
    monkeypatch.setattr(sshd_keys, "each", lambda ask, names, *_, **__: [(one, ask(one)) for one in names])
    (host.root / "etc/shadow").write_text(f"minji:*:1:0:99999:7:::\njiho:{hashed}:1:0:99999:7:::\n")
    host.write(_50_site=before)
    if key:
        (host.root / key).parent.mkdir(parents=True)
        (host.root / key).write_text(f"{public_key('jiho')}\n")
    settings = (*SET, ("KbdInteractiveAuthentication", "no"))
    if not out:
        assert "PasswordAuthentication no" in sshd_keys.plan_text(str(host.root), sshd, settings)
        return
    with pytest.raises(NodeError, match=r"would shut out who can log in now: jiho \(has a password and no key\)"):
        sshd_keys.plan_text(str(host.root), sshd, settings)


@pytest.mark.parametrize(
    ("name", "root", "takes"), [("minji", "no", True), ("root", "without-password", False), ("root", "yes", True)]
)
def test_whose_password_counts(name: str, root: str, takes: bool) -> None:
    settings = {"passwordauthentication": ["no"], "kbdinteractiveauthentication": ["yes"], "permitrootlogin": [root]}
    assert sshd_keys._takes_passwords(settings, name) is takes


@pytest.mark.holds("where root logs in with less than a key, that stays")
@pytest.mark.parametrize(
    ("has", "line"),
    [("yes", "PermitRootLogin without-password\n"), ("no", ""), ("forced-commands-only", "")],
)
def test_root_gets_no_more_than_before(host: Host, has: str, line: str) -> None:
    host.write(_50_site=f"PermitRootLogin {has}")
    text = sshd_keys.plan_text(str(host.root), sshd, (("PermitRootLogin", "without-password"),))
    assert text.partition("UsePAM yes\n")[2] == line

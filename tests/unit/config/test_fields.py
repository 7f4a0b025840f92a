"""Every value that a person can type, and what happens to hostile ones."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.config import fields
from tests.support.sites import public_key

RSA = public_key("laptop", "ssh-rsa")
ED25519 = public_key("laptop")

GOOD_NAMES = ("a", "_a", "minji", "user-1", "a" * 32, "a_b-c9", "x0")
NOT_NAMES = (
    "", "../x", "-rf", "a b", "a\nb", "minji\n", "{{ x }}", "{{7*7}}", "a" * 33, "민지", "minji한", "Minji", "9lives",
    "a.b", "a:b", "a/b", "a$", "a;reboot", "$(id)", ".", "..", "~root",
    "а",  # noqa: RUF001  a Cyrillic letter that looks like a Latin one
)  # fmt: skip
OF_THE_SYSTEM = ("root", "docker", "sudo", "gpuadmin", "systemd-network", "systemd-anything", "gpuadmin-timers")


@given(st.text(max_size=40))
def test_what_passes_as_a_name_is_harmless(text: str) -> None:
    try:
        name = fields.user_name(text)
    except ValueError:
        return
    assert name.isascii()
    assert 1 <= len(name) <= 32
    assert not name.startswith("-")
    assert not set(name) & set(" /.:;$`'\"{}\n\t\\*?[]()&|<>~!#")


GOOD_KEYS = (
    ED25519, RSA, public_key("x", comment=""), public_key("x", comment="two words"),
    public_key("x", comment="민지@laptop"),
)  # fmt: skip
BAD_KEYS = {
    f'command="rm -rf /" {ED25519}': "key with options",
    f"no-pty {RSA}": "key with options",
    f'from="*",command="id" {RSA}': "key with options",
    f"environment=LD_PRELOAD=x {RSA}": "key with options",
    f"cert-authority {RSA}": "key with options",
    f"{ED25519}\n{RSA}": "control character",
    f"{ED25519}\r{RSA}": "control character",
    f"{ED25519}\x00": "control character",
    f"{ED25519} {{{{ lookup('pipe', 'id') }}}}": "template marker",
    f"{ED25519} {{% raw %}}": "template marker",
    "": "known key type",
    "ssh-ed25519": "damaged",
    "ssh-ed25519 ": "damaged",
    "ssh-ed25519 AAAA": "damaged",
    "ssh-ed25519 not!base64": "not base64",
    f"ssh-rsa {ED25519.split()[1]}": "damaged",
    ED25519[:-60]: "damaged",
    "ssh-dss AAAAB3NzaC1kc3M=": "known key type",
    "keys/minji.pub": "a file's path; a key is what the .pub file holds",
    "~/.ssh/id_ed25519": "a file's path",
    "-----BEGIN OPENSSH PRIVATE KEY-----": "PRIVATE key",
    "x" * 20000: "at most",
    f"{ED25519} \u200b": "invisible character U\\+200B",
    f"ssh-ed25519\t{ED25519.split()[1]}": "control character",
}


@pytest.mark.parametrize("rule", [fields.plain_text, fields.email, fields.local_file, fields.absolute_path])
@pytest.mark.parametrize("character", "\u202e\u2066\u200b\u200d\u2060\ufeff\xad\u3164\u061c\U000e0041\x9b\x1b")
def test_what_turns_text_around_or_is_not_seen_is_refused(rule: Callable[[str], Any], character: str) -> None:
    with pytest.raises(ValueError, match="character"):
        rule(f"/home/minji{character}@example.org")


#: A rule, a value, and why it is refused: None, if it is what the rule gives back.
TABLE: list[tuple[Callable[[Any], Any], Any, str | None]] = [
    *((fields.user_name, name, None) for name in GOOD_NAMES),
    *((fields.user_name, name, "is not a user name") for name in NOT_NAMES),
    *((fields.user_name, name, "system account") for name in OF_THE_SYSTEM),
    *((fields.ssh_key, key, None) for key in GOOD_KEYS),
    *((fields.ssh_key, key, why) for key, why in BAD_KEYS.items()),
    *((fields.group_name, name, "is not a group's name") for name in ("Lab 1", "", "1st")),
    (fields.group_name, "docker", "a group or an account of the system"),
    (fields.group_name, "lab-1", None),
    (fields.email, "minji@example.org", None),
    (fields.email, "m.kim+gpu@cs.example.ac.kr", None),
    (fields.email, "minji", "not an e-mail"),
    (fields.email, "a b@example.org", "not an e-mail"),
    (fields.email, "a@b@c", "not an e-mail"),
    (fields.email, "=?utf-8?q?a?=@example.org", "not an e-mail"),
    (fields.email, "a@example.org\nBcc: all@example.org", "control character"),
    (fields.email, "a@example.org, b@example.org", "not an e-mail"),
    (fields.email, "{{ x }}@example.org", "template marker"),
    (fields.plain_text, "한글 remark, with colons: yes", None),
    (fields.plain_text, "x" * 201, "at most 200"),
    (fields.plain_text, "a\tb", "control character"),
    (fields.plain_text, "a\x1b[31mb", "control character"),
    (fields.plain_text, "a\u2028b", "control character"),
    (fields.plain_text, "{# x #}", "template marker"),
    (fields.not_root_path, "/srv/storage/homes", None),
    (fields.not_root_path, "/", "must not be /"),
    (fields.not_root_path, "//", "must not be /"),
    (fields.not_root_path, "srv", "absolute path"),
    (fields.not_root_path, "/srv/../etc", "absolute path"),
    (fields.not_root_path, "/a b", "absolute path"),
    (fields.not_root_path, "/a%h", "absolute path"),
    (fields.not_root_path, "/a*", "absolute path"),
    (fields.host_name, "node1.example.org", None),
    (fields.host_name, "10.0.0.1", None),
    (fields.host_name, "-oProxyCommand=id", "not a host name"),
    (fields.host_name, "a b", "not a host name"),
    (fields.host_name, "", "not a host name"),
    (fields.iso_date, date(2027, 2, 28), None),
    (fields.iso_date, "2027-02-30", "does not exist"),
    (fields.iso_date, "tomorrow", "not a date"),
]


@pytest.mark.parametrize(("rule", "value", "why"), TABLE)
def test_each_rule(rule: Callable[[Any], Any], value: Any, why: str | None) -> None:
    if why is None:
        assert rule(value) == value
    else:
        with pytest.raises(ValueError, match=why):
            rule(value)


def test_what_is_written_otherwise_is_made_plain() -> None:
    for key in (f"  {ED25519}  ", f"{ED25519}\n"):
        assert fields.ssh_key(key) == ED25519
    assert fields.not_root_path("/srv//storage/homes/") == "/srv/storage/homes"
    assert fields.iso_date("2027-02-28") == date(2027, 2, 28)

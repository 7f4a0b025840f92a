"""sshd against what a site wants."""

import pytest

from gpuadmin.auditing.policy import against
from gpuadmin.config.schema.hosts import AuditSsh

SSHD = {
    "passwordauthentication": ["yes"], "kbdinteractiveauthentication": ["no"], "permitrootlogin": ["yes"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "more", "words"),
    [
        ({}, {}, []),
        ({"passwords": True}, {}, []),
        ({"passwords": False}, {}, ["sshd passwordauthentication yes: the site wants no passwords"]),
        ({"root": "no"}, {}, ["sshd permitrootlogin yes: the site wants root not to log in"]),
        (
            {"root": "no"},
            {"permitrootlogin": ["without-password"]},
            ["sshd permitrootlogin without-password: the site wants root not to log in"],
        ),
        ({"root": "keys"}, {"permitrootlogin": ["without-password"]}, []),
        ({"idle_minutes": 60}, {"channeltimeout": ["session:shell=60m"]}, []),
        ({"idle_minutes": 60}, {"channeltimeout": ["none"]},
         ["sshd closes no idle shell: the site wants it after 60 minutes"]),
        ({"root": "keys"}, {"permitrootlogin": ["no"]}, []),
        ({"root": "keys"}, {}, ["sshd permitrootlogin yes: the site wants root to log in with a key at most"]),
    ],
)  # fmt: skip
def test_what_is_not_as_wanted(policy: dict[str, object], more: dict[str, list[str]], words: list[str]) -> None:
    assert list(against(AuditSsh.model_validate(policy), SSHD | more)) == words


@pytest.mark.holds("what sshd does not say is not what the site wants")
def test_settings_that_are_not_known_are_no_good_ones() -> None:
    (words,) = against(AuditSsh(passwords=False), {})
    assert "cannot be judged" in words
    assert list(against(AuditSsh(), {})) == []

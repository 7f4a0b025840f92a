"""What is said of somebody's keys: what was seen, and nothing of what could not be looked at."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.cause import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.judge import judge
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.people import keys, pam_account

PATH = "/var/lib/gpuadmin/keys/minji"
GOOD = {"line": 1, "kind": "ssh-ed25519", "fingerprint": "SHA256:x", "problem": None}
CUT = {**GOOD, "problem": "is cut or damaged: it ends in the middle"}


def facts(problem: str | None, found: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    site = {"path": PATH, "problem": problem, "keys": found, "read": True}
    return {
        "node": True, "unknown": {}, "late": [], "account": {"passwd": {"uid": 20000}, "groups": []},
        "keys": {"site": site, "elsewhere": [], "settings": {}}, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("has", "given", "said"),
    [
        (True, facts(None, [GOOD]), []),
        (True, facts("is missing", []), ["minji's keys of users.yml are not there"]),
        (True, facts(None, []), ["minji's keys of users.yml are not there"]),
        # there, and not read or not good: nothing is missing
        (True, facts("Input/output error", []), [f"minji has no key that sshd takes: {PATH} Input/output error"]),
        (True, facts(None, [CUT]), [f"minji has no key that sshd takes: line 1 of {PATH} (ssh-ed25519) "
                                    "is cut or damaged: it ends in the middle"]),
        (False, facts("is missing", []), [f"minji has no key that sshd takes: {PATH} is missing"]),
        # hers are in her home, and the look at that was cut short
        (False, facts("is missing", [], unknown={"home": "said nothing for 3 s"}, late=["home"]), []),
        (True, facts("is missing", [], unknown={"home": "said nothing for 3 s"}),
         ["minji's keys of users.yml are not there"]),
    ],
)  # fmt: skip
def test_what_is_said_of_keys(has: bool, given: dict[str, Any], said: list[str]) -> None:
    person = Person("minji", uid=20000, keys=has)
    assert [one.cause for one in keys(person, given)] == said


TWO = {"path": "/home/minji/.ssh/authorized_keys2", "problem": None, "keys": [GOOD]}
UNREAD = {"path": PATH, "problem": None, "keys": [GOOD], "read": False}


@pytest.mark.parametrize(
    ("has", "found", "home", "codes"),
    [
        (
            False,
            {},
            [{**TWO, "path": "/home/minji/.ssh/authorized_keys", "problem": "is missing", "keys": []}, TWO],
            [],
        ),
        (False, {"elsewhere": [TWO]}, [], []),
        # a Match block of the host's has another list for her
        (True, {"site": UNREAD}, [], ["no-key"]),
        (True, {"site": UNREAD}, [TWO], ["refused-key"]),
        (False, {"settings": {"authorizedkeyscommand": "/usr/bin/sss_ssh_authorizedkeys"}}, [], []),  # not known
        (False, {}, [], ["no-key"]),
    ],
)
def test_keys_are_looked_for_where_sshd_does(
    has: bool, found: dict[str, Any], home: list[dict[str, Any]], codes: list[str]
) -> None:
    given = facts("is missing", [], home={"keys": home})
    given["keys"] |= found
    assert [one.code for one in keys(Person("minji", uid=20000, keys=has), given)] == codes


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"allowusers": "j* minji@10.0.0.0/8"}, None),
        ({"allowusers": "j* yuna"}, "sshd does not let minji in (AllowUsers)"),
        ({"allowusers": "* !minji"}, "sshd does not let minji in (AllowUsers)"),
        ({"denyusers": "m?nji"}, "sshd does not let minji in (DenyUsers)"),
        ({"denyusers": "minji@10.0.0.1"}, None),
        ({"allowgroups": "lab-*"}, None),
        ({"allowgroups": "staff"}, "sshd lets none of minji's groups in (AllowGroups)"),
        ({"allowgroups": "lab-*", "denygroups": "*-vision"}, "sshd lets none of minji's groups in (DenyGroups)"),
        ({"allowgroups": "lab-*", "denygroups": "staff"}, None),
    ],
)
def test_lists_of_who_may_log_in(settings: dict[str, str], cause: str | None) -> None:
    given = facts(None, [GOOD])
    given["keys"]["settings"], given["account"]["groups"] = settings, ["lab-vision", "gpuusers"]
    assert [one.cause for one in keys(Person("minji", uid=20000), given)] == ([] if cause is None else [cause])


AGED = {"refused": True, "aged": True, "words": "new one required"}


@pytest.mark.parametrize(
    ("answer", "account", "codes"),
    [
        (AGED, {}, ["password-aged"]),
        ({**AGED, "aged": False}, {}, ["pam-account"]),
        ({**AGED, "refused": False}, {}, []),
        (None, {}, []),
        (AGED, {"nologin": {"file": "/etc/nologin", "words": "x"}}, []),  # said by itself
        (AGED, {"shadow": {"locked": True, "expires": 1}}, []),
        (AGED, {"shadow": {"locked": False, "expires": 20000}}, []),
    ],
)
def test_what_pam_says_of_an_account(answer: dict[str, Any] | None, account: dict[str, Any], codes: list[str]) -> None:
    shadow = {"locked": False, "expires": None}
    found = {"account": {"today": 20001, "nologin": None, "shadow": shadow, **account}, "pam_account": answer}
    assert [one.code for one in pam_account(Person("minji"), found)] == codes


def test_pam_that_sshd_does_not_ask_keeps_nobody_out() -> None:
    account = {"today": 20001, "nologin": None, "shadow": {"locked": False, "expires": None}}
    found = {"account": account, "pam_account": AGED, "keys": {"settings": {"usepam": "no"}}}
    assert list(pam_account(Person("minji"), found)) == []


def test_what_follows_from_an_aged_password_is_not_said() -> None:
    """`diagnose` began with restarting the person's manager, which PAM keeps from them for the same reason."""
    entry = {"uid": 20000, "shell": "/bin/sh", "shell_lets_in": True, "shell_runs": True}
    given = facts(None, [GOOD], pam_account=AGED) | {
        "account": {"passwd": entry, "groups": [], "today": 20001, "nologin": None, "others": [],
                    "shadow": {"locked": False, "expires": None}},
        "sessions": {"manager": "failed", "words": [], "slice": {}},
        "trial": {"pam": "pam_unix(sshd:account): expired password", "steps": {}, "processes": None},
    }  # fmt: skip
    assert [one.code for one in judge(given, Person("minji", uid=20000))] == ["password-aged"]

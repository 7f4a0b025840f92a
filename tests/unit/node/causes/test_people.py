"""What is said of somebody's keys: what was seen, and nothing of what could not be looked at."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.cause import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.people import keys

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

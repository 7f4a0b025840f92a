"""The table of causes, and what facts of a host mean by it: facts in, causes out."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.common.causes import cause
from gpuadmin.common.causes.judge import CAUSES, judge
from gpuadmin.common.causes.keys import judge_settings
from gpuadmin.common.records.diagnosis import RegisteredPerson as Person
from gpuadmin.diagnosis import verdict

FILES = [path for path in Path(cause.__file__).parent.glob("*.py") if path.name not in ("cause.py", "__init__.py")]


def literals(path: Path) -> set[str]:
    """The texts of a file that stand outside of its table."""
    tree = ast.parse(path.read_text())
    table = {id(node) for one in tree.body if isinstance(one, ast.Assign) for node in ast.walk(one)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in table)
    return {str(node.value) for node in texts} | {f"session-{step}" for step in ("command", "login")}


def test_each_row_is_whole() -> None:
    """Each of its texts is for somebody, in both languages, with the same values; and a rule finds it."""
    named = set.union(*map(literals, [*FILES, Path(verdict.__file__)]))
    for code, row in CAUSES.items():
        assert {code, *(f"{code}/{other}" for other in row.others)} <= named, f"no rule finds {code}"
        assert row.thing is not None or code in ("host-silent", "unknown"), f"{code}: of what is it?"
        assert all(words and remedy for words, remedy in [(row.words, row.remedy), *row.others.values()]), code
        if row.person is not None:
            english, korean = "".join(row.person[:2]), "".join(row.person[2:])
            assert all(row.person), code
            assert any("가" <= letter <= "힣" for letter in korean), code
            assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", korean)), code


def test_no_two_rows_have_one_code() -> None:
    codes = [code for path in FILES for code in re.findall(r'^    Row\("([\w-]+)"', path.read_text(), re.MULTILINE)]
    assert sorted(codes) == sorted(CAUSES)


MINJI, KEYED = Person("minji", 20000), Person("minji", 20000, keys=True)
PATH = "/var/lib/gpuadmin/keys/minji"
GOOD = {"line": 1, "kind": "ssh-ed25519", "fingerprint": "SHA256:x", "problem": None}
CUT = {**GOOD, "problem": "is cut or damaged: it ends in the middle"}
TWO = {"path": "/home/minji/.ssh/authorized_keys2", "problem": None, "keys": [GOOD]}
NONE = {"path": "/home/minji/.ssh/authorized_keys", "problem": "is missing", "keys": []}
NO_HOME = {"unknown": {"home": "said nothing for 3 s"}}
AGED = {"refused": True, "aged": True, "words": "new one required"}
FULL = (["jiho"], True)


def host(**facts: Any) -> dict[str, Any]:
    return {"node": True, "unknown": {}, "late": [], **facts}


def account(**more: Any) -> dict[str, Any]:
    entry = {"uid": 20000, "shell": "/bin/sh", "shell_lets_in": True, "shell_runs": True}
    shadow = {"locked": False, "expires": None}
    return {"passwd": entry, "groups": [], "today": 20001, "nologin": None, "others": [], "shadow": shadow, **more}


def keys(problem: str | None, found: list[dict[str, Any]], read: bool = True, **more: Any) -> dict[str, Any]:
    """A host with the site's file of keys; `elsewhere` and `settings` are of the part, the rest is of the host."""
    site = {"path": PATH, "problem": problem, "keys": found, "read": read}
    part = {"site": site, "elsewhere": more.pop("elsewhere", []), "settings": more.pop("settings", {})}
    return host(account=account(), keys=part, **more)


def amount(place: str, held: bool, percent: int) -> dict[str, Any]:
    return host(amounts={place: {"bytes": percent * 2 * 10**9, "most": 200 * 10**9, "held": held}})


def pam(answer: Any, **more: Any) -> dict[str, Any]:
    return host(account=account(**more), pam_account=answer)


def gpus(*held: tuple[list[str], bool], **more: Any) -> dict[str, Any]:
    """A node with GPUs, each with its holders and whether its memory is used up."""
    each = [{"index": place, "holders": who, "full": full} for place, (who, full) in enumerate(held)]
    none: dict[str, Any] = {key: [] for key in ("missing", "broken", "lost", "worse", "containers")}
    return host(gpus={**none, "number": len(each), "differ": None, "problem": None, "gpus": each, **more})


def grants(*given: tuple[str, str]) -> dict[str, Any]:
    found = [{"user": user, "gpus": places.split(), "until": 1_800_000_000} for user, places in given]
    return host(granted={"gpus": 2, "grants": found})


#: Whose, what a host found, and the causes: codes, each with the beginning of its sentence where that tells more.
CASES: list[tuple[Person | None, dict[str, Any], list[str]]] = [
    (MINJI, host(amounts=None), []),
    (MINJI, amount("docker", True, 98), []),
    (MINJI, amount("docker", True, 99), ["amount-full: minji's Docker data is full: 198.0 GB of 200.0 GB"]),
    (MINJI, amount("docker", False, 99), []),
    (MINJI, amount("docker", False, 100), ["amount-docker-over: minji's Docker data is more than they may have"]),
    (MINJI, amount("home", True, 99), ["amount-home-full: minji's home is full: 198.0 GB of 200.0 GB; what writes"]),
    (MINJI, amount("scratch", True, 99), ["amount-scratch-full: minji's scratch is full: 198.0 GB of 200.0 GB"]),
    (MINJI, amount("home", False, 101), ["amount-over: minji's home is more than they may have: 202.0 GB of 200.0 GB"]),
    (None, host(clock={"synchronized": False}), ["clock-free"]),
    # keys that are there, and not read or not good: nothing is missing
    (KEYED, keys(None, [GOOD]), []),
    (KEYED, keys("is missing", []), ["no-key: minji's keys of users.yml are not there"]),
    (KEYED, keys(None, []), ["no-key: minji's keys of users.yml are not there"]),
    (KEYED, keys("Input/output error", []), [f"no-key: minji has no key that sshd takes: {PATH} Input/output error"]),
    (KEYED, keys(None, [CUT]), [f"no-key: minji has no key that sshd takes: line 1 of {PATH} (ssh-ed25519) is cut"]),
    (MINJI, keys("is missing", []), [f"no-key: minji has no key that sshd takes: {PATH} is missing"]),
    # hers are in her home, and the look at that was cut short
    (MINJI, keys("is missing", [], **NO_HOME), ["unknown"]),
    (KEYED, keys("is missing", [], **NO_HOME), ["no-key: minji's keys of users.yml are not there", "unknown"]),
    # keys are looked for where sshd does
    (MINJI, keys("is missing", [], elsewhere=[TWO]), []),
    (MINJI, keys("is missing", [], home={"keys": [NONE, TWO]}), []),
    # a Match block of the host's has another list for her
    (KEYED, keys(None, [GOOD], read=False), ["no-key: sshd does not read minji's keys of users.yml"]),
    (KEYED, keys(None, [GOOD], read=False, elsewhere=[TWO]), ["refused-key: sshd does not read minji's keys of users"]),
    (MINJI, keys("is missing", [], settings={"authorizedkeyscommand": "/usr/bin/sss_ssh_authorizedkeys"}), []),
    # PAM's verdict on an account that is not locked or ended by other words
    (MINJI, pam(AGED), ["password-aged"]),
    (MINJI, pam({**AGED, "aged": False}), ["pam-account: PAM does not let minji in: new one required"]),
    (MINJI, pam({**AGED, "refused": False}), []),
    (MINJI, pam(AGED, nologin={"file": "/etc/nologin", "words": "x"}), ["nologin"]),
    (MINJI, pam(AGED, shadow={"locked": True, "expires": 1}), ["locked-here"]),
    (MINJI, pam(AGED, shadow={"locked": False, "expires": 20000}), ["expired-here"]),
    # PAM that sshd does not ask keeps nobody out
    (MINJI, {**keys(None, [GOOD], settings={"usepam": "no"}), "pam_account": AGED}, []),
    # what follows from an aged password is not named: PAM keeps the manager from them for the same reason
    (MINJI, {**pam(AGED), "sessions": {"manager": "failed", "words": [], "slice": {}},
             "trial": {"pam": "expired password", "steps": {}, "processes": None}}, ["password-aged"]),
    (MINJI, host(trial={"pam": "step EXEC: Resource temporarily unavailable"}),
     ["session-process: minji gets no session: PAM lets them in, and no process could be started"]),
    (MINJI, host(trial={"pam": "PAM failed: Module is unknown"}), ["session-pam: minji gets no session: PAM failed"]),
    # of a host alone nobody is kept out
    (MINJI, gpus(FULL, FULL), ["gpu-full: all GPUs are held by others: jiho: GPU 0, 1"]),
    (None, gpus(FULL, FULL), ["gpu-held: GPUs are held: jiho: GPU 0, 1"]),
    (MINJI, gpus(FULL, ([], False)), ["gpu-held"]),
    (MINJI, gpus(FULL, (["minji"], True)), ["gpu-held"]),
    (MINJI, gpus(FULL, (["jiho"], False)), ["gpu-held"]),
    (MINJI, gpus((["minji"], True)), []),
    (None, gpus(broken=["GPU 0: 3 memory errors"], worse=["GPU 1: its fan stands still"]),
     ["gpu-broken: GPU 0: 3 memory errors", "gpu-worse: GPU 1: its fan stands still"]),
    (MINJI, host(granted=None), []),  # open to everybody
    (MINJI, grants(("jiho", "0")), ["gpu-grant: minji was granted no GPU: GPUs are given on request there"]),
    (MINJI, grants(("jiho", "0"), ("minji", "1")), ["gpu-granted: minji was granted GPU 1 until 2027-01-15"]),
    (MINJI, grants(("minji", "0 1")), []),
]  # fmt: skip


@pytest.mark.parametrize(("person", "facts", "found"), CASES)
def test_facts_and_causes(person: Person | None, facts: dict[str, Any], found: list[str]) -> None:
    known = judge(facts, person)
    assert [one.code for one in known] == [words.partition(":")[0] for words in found]
    for one, words in zip(known, found, strict=True):
        assert f"{one.code}: {one.cause}".startswith(words)
        text = CAUSES[one.code].person
        if text is not None:
            for language in ("en", "ko"):
                given = {**one.values, "way": "so", "look": "so"}
                assert "?" not in "".join(text.fill(language, given)), "its rule lacks a value"


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
        ({"pubkeyauthentication": "no"}, "sshd takes no keys (PubkeyAuthentication no)"),
    ],
)
def test_lists_of_who_may_log_in(settings: dict[str, str], cause: str | None) -> None:
    found = judge_settings("minji", settings, ["lab-vision", "gpuusers"])
    assert [one.cause for one in found] == ([] if cause is None else [cause])

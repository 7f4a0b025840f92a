"""gpuadmin-me check: the rules of a diagnosis, in words for people, with nobody else's names."""

import ast
import os
import re
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.cause import Cause
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.me import check, texts

from gpuadmin.diagnosis.finding import CODES, Severity

CAUSES = Path(check.__file__).parents[1] / "causes"
#: What only an admin's diagnosis can see: it needs root, or users.yml.
ADMINS = {
    "account-missing", "other-uid", "locked-here", "expired-here", "no-key", "refused-key", "not-allowed", "sshd",
    "trial", "drift", "units", "memory-kills", "gpu-kernels", "pam-module", "pam-account", "password-aged",
    "session-pam",
}  # fmt: skip


def codes() -> set[str]:
    """Every code that the rules have."""
    found: set[str] = set()
    for path in CAUSES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            given = node.args[:1] if isinstance(node, ast.Call) and ast.unparse(node.func) == "Cause" else []
            if isinstance(node, ast.Constant) and node.value in CODES:
                given = [node]
            found |= {str(one.value) for one in given if isinstance(one, ast.Constant)}
    return found - {"clock", "locked"}  # keys of facts, which have a code's name


def test_every_rule_has_a_text_in_both_languages_or_is_for_admins() -> None:
    known = set(texts.ORDER) | ADMINS
    assert codes() - known == set(), "they need a text in me/texts.py, in both languages, or a place in ADMINS above"
    assert known - codes() == set(), "no rule has these codes any more"
    assert codes() <= set(CODES)
    for code in texts.ORDER:
        text = texts.CAUSES.get(code) or texts.NOTES[code]
        for language in (text.en, text.ko):
            assert all(language)
        assert any("가" <= letter <= "힣" for letter in "".join(text.ko)), code
        # the same values in both
        assert set(re.findall(r"\{\d\}", "".join(text.en))) == set(re.findall(r"\{\d\}", "".join(text.ko))), code


def test_the_order_is_that_of_a_diagnosis() -> None:
    order = [code for code in CODES if code in texts.CAUSES]
    assert list(texts.CAUSES) == order
    serious = {code for code, severity in CODES.items() if severity in (Severity.STOPS, Severity.HINDERS)}
    assert set(texts.CAUSES) <= serious
    assert not set(texts.NOTES) & serious, "whoever has no Docker may not want any"


def test_the_remedy_comes_first() -> None:
    found = [Cause("docker-disk", "x", "y", (), ("1.0 MB",)), Cause("container", "x", "y", (), ("train", "3"))]
    assert check.lines(found, 20, "node1", "en") == [
        "* docker system prune",
        "  because: the disk of Docker's data on this node is full: 1.0 MB left",
        "- docker logs train",
        "  because: your container train ended with 3",
    ]
    assert check.lines(found, 20, "node1", "ko")[1] == "  이유: 이 노드의 Docker 디스크가 가득 찼습니다: 1.0 MB 남음"
    assert check.lines([], 20, "node1", "en") == [
        "node1: 20 things were checked, and none of them keeps you from working. "
        "Not checked: your keys, log-ins from outside, your programs."
    ]
    assert check.lines([], 20, "node1", "ko")[0].startswith("node1: 20가지를 확인했고")


def test_what_a_cause_does_not_say_is_not_made_up() -> None:
    assert "?" in check.lines([Cause("homes-full", "x", "y")], 20, "node1", "en")[1]


def test_what_only_root_may_read_is_not_looked_at() -> None:
    asked = set(collect.parts(Subject(name="minji", own=True)))
    assert not asked & {"keys", "pam_account", "sshd", "units", "image"}
    assert {"home", "docker", "gpus", "account"} <= asked


def test_without_a_process_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(check, "collect", refused)
    found, looked = check.causes(Subject(name="minji", uid=os.getuid(), own=True))
    assert looked == 0
    assert [cause.code for cause in found] == ["tasks"]
    assert check.lines(found, 20, "node1", "en")[0] == "* End processes that you do not need: ps -u $USER"

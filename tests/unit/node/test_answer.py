"""What an operation answers: changed, failed with what is wrong, and with what the others got done."""

import json

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.report import Reports, UserReport


@pytest.mark.parametrize(
    ("answer", "changed"),
    [(Answer([], {}), False), (Answer(["made a"], {}), True), (Answer(["looked at a"], {}, changed=False), False)],
)
def test_what_was_done_is_a_change_unless_it_says_otherwise(answer: Answer, changed: bool) -> None:
    assert answer.result() == {"changed": changed, "operations": answer.operations, "report": {}}


def test_a_conflict_fails_and_what_the_others_got_is_reported() -> None:
    reports = Reports({"minji": UserReport("ok", ["made"]), "jiho": UserReport("conflict", [], "uid 5 is root's")})
    result = Answer.of(reports, backup="one").result("users")
    assert (result["failed"], result["msg"]) == (True, "jiho: uid 5 is root's")
    assert (result["changed"], result["operations"], result["report"]["backup"]) == (True, ["minji: made"], "one")
    assert "users" not in result["report"], "Ansible walks it"
    jiho = json.loads(result["each"]["users"])["jiho"]
    assert jiho == {"status": "conflict", "operations": [], "problem": "uid 5 is root's"}


def test_a_failure_of_the_whole_is_said_before_conflicts() -> None:
    result = Answer(["made a"], conflicts=["jiho: no"], problem="no space", changed=True).result()
    assert (result["changed"], result["failed"], result["msg"]) == (True, True, "no space")
    assert result["conflicts"] == ["jiho: no"]

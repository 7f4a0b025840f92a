"""How a module ends: changed, failed with what is wrong, and with what the others got done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer, give
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.report import Reports, UserReport


class Module:
    """What a module says, instead of ending."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []

    def exit_json(self, **result: Any) -> None:
        self.done.append(("done", result))

    def fail_json(self, msg: str, **result: Any) -> None:
        self.done.append((msg, result))


@pytest.mark.parametrize(
    ("answer", "changed"),
    [(Answer([], {}), False), (Answer(["made a"], {}), True), (Answer(["looked at a"], {}, changed=False), False)],
)
def test_what_was_done_is_a_change_unless_it_says_otherwise(answer: Answer, changed: bool) -> None:
    module = Module()
    give(module, lambda: answer)
    result = {"changed": changed, "operations": answer.operations, "report": {}, "invocation": {}}
    assert module.done == [("done", result)]


def test_a_conflict_fails_and_what_the_others_got_is_reported() -> None:
    reports = Reports({"minji": UserReport("ok", ["made"]), "jiho": UserReport("conflict", [], "uid 5 is root's")})
    module = Module()
    give(module, lambda: Answer.of(reports, backup="one"), key="users")
    message, result = module.done[0]
    assert message == "jiho: uid 5 is root's"
    assert (result["changed"], result["operations"], result["report"]["backup"]) == (True, ["minji: made"], "one")
    assert "users" not in result["report"], "Ansible walks it"
    jiho = json.loads(result["each"]["users"])["jiho"]
    assert jiho == {"status": "conflict", "operations": [], "problem": "uid 5 is root's"}


@pytest.mark.parametrize("error", [NodeError("no space"), OSError(28, "no space")])
def test_an_error_is_a_sentence_and_a_report(error: Exception) -> None:
    def broken() -> Answer:
        raise error

    module = Module()
    give(module, broken, key="homes")
    report = {"problems": [in_words(error)]}
    expected = {"operations": [], "report": report, "each": {"homes": "{}"}, "invocation": {}}
    assert module.done == [(in_words(error), expected)]

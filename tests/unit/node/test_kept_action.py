"""How a module is called: from what the host keeps; the code goes there when it is missing, and never in check mode."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.gpuadmin.node.plugins.action import code as code_action
from ansible_collections.gpuadmin.node.plugins.action import kept
from ansible_collections.gpuadmin.node.plugins.plugin_utils.kept import code

ARGUMENTS = {"users": '[{"name": "minji"}]', "state_directory": "/x"}
DONE = {"changed": True, "operations": ["x"]}
RUN, CODE, PLAIN = "gpuadmin.node.run_kept", "gpuadmin.node.code", "gpuadmin.node.accounts"


def action(
    cls: type[Any], monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]], **task: Any
) -> tuple[Any, list[tuple[str, dict[str, Any], dict[str, Any]]]]:
    """An action plugin whose hosts give these answers, and the calls that it makes."""
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    replies: Iterator[dict[str, Any]] = iter(answers)

    def execute(name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        calls.append((name, dict(arguments), more))
        arguments["_ansible_left"] = "by Ansible"  # it adds its own to what it is given
        return dict(next(replies))

    made = object.__new__(cls)
    made._task = SimpleNamespace(
        **{"args": dict(ARGUMENTS), "resolved_action": PLAIN, "async_val": 0, "check_mode": False, **task}
    )
    made._connection = SimpleNamespace(has_native_async=False)
    monkeypatch.setattr(ActionBase, "run", lambda _self, _tmp=None, _variables=None: {})
    monkeypatch.setattr(made, "_execute_module", execute)
    return made, calls


NEW, ABSENT, UNSAFE = ({"changed": False, "kept": word} for word in ("new", "absent", "/var can be written by others"))


@pytest.mark.parametrize(
    ("check", "answers", "expected"),
    [
        pytest.param(False, [DONE], [RUN], id="it has the code"),
        pytest.param(True, [DONE], [RUN], id="it has the code, and only looks"),
        pytest.param(False, [NEW, DONE], [RUN, PLAIN], id="gpuadmin has nothing there"),
        pytest.param(False, [ABSENT, {"changed": True}, DONE], [RUN, CODE, RUN], id="the code is sent once"),
        pytest.param(True, [ABSENT, DONE], [RUN, PLAIN], id="check mode leaves nothing"),
        pytest.param(False, [ABSENT, {"failed": True}, DONE], [RUN, CODE, PLAIN], id="a full disk"),
        pytest.param(False, [ABSENT, {}, ABSENT, DONE], [RUN, CODE, RUN, PLAIN], id="gone again"),
        pytest.param(False, [UNSAFE, DONE], [RUN, PLAIN], id="others could have written it"),
    ],
)
def test_what_is_called(
    monkeypatch: pytest.MonkeyPatch, check: bool, answers: list[dict[str, Any]], expected: list[str]
) -> None:
    made, calls = action(kept.ActionModule, monkeypatch, answers, check_mode=check)
    result = made.run()
    assert [name for name, _arguments, _more in calls] == expected
    remarks = result.pop("remarks", [])
    assert result == DONE
    assert bool(remarks) == (answers[0] is UNSAFE), "an admin is told why a host is slow, and of a fault there"
    for name, given, _more in calls:
        if name == RUN:
            assert given["digest"] == code().digest
            assert given["name"] == "ansible_collections.gpuadmin.node.plugins.modules.accounts"
            assert json.loads(zlib.decompress(base64.b64decode(given["arguments"]))) == ARGUMENTS
        elif name == CODE:
            text = zlib.decompress(base64.b64decode(given["code"]))
            assert hashlib.sha256(text).hexdigest() == given["digest"] == code().digest
        else:
            assert given == ARGUMENTS


def test_a_failure_of_the_module_is_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran: nothing is done twice."""
    failed = {"failed": True, "msg": "two people have one uid", "remarks": ["x"]}
    made, calls = action(kept.ActionModule, monkeypatch, [failed])
    assert made.run() == failed
    assert len(calls) == 1


def test_an_asynchronous_task_goes_ansibles_way(monkeypatch: pytest.MonkeyPatch) -> None:
    made, calls = action(kept.ActionModule, monkeypatch, [DONE], async_val=60)
    assert made.run() == DONE
    assert calls == [(PLAIN, ARGUMENTS, {"task_vars": {}, "wrap_async": True})]


@pytest.mark.parametrize(
    ("check", "answers", "sent"),
    [
        (False, [{"missing": False, "changed": False}], [False]),
        (False, [{"missing": True, "changed": True}, {"missing": False, "changed": True}], [False, True]),
        (True, [{"missing": True, "changed": True}], [False]),
    ],
)
def test_the_code_is_sent_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, check: bool, answers: list[dict[str, Any]], sent: list[bool]
) -> None:
    made, calls = action(code_action.ActionModule, monkeypatch, answers, check_mode=check, args={"link": True})
    assert made.run() == answers[-1]
    assert [bool(given.get("code")) for _name, given, _more in calls] == sent
    assert all(given["link"] and given["digest"] == code().digest for _name, given, _more in calls)

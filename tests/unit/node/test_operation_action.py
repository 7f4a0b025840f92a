"""How an operation is called: from what the host keeps; code that is missing goes there, but not in check mode."""

import base64
import hashlib
import json
import shlex
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.gpuadmin.node.plugins.action import code as code_action
from ansible_collections.gpuadmin.node.plugins.action import operation
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import ARRIVE, code

ARGUMENTS = {"users": '[{"name": "minji"}]', "state_directory": "/x"}
DONE = {"changed": True, "operations": ["x"]}
RUN, CARRY, SEND = "the code that is kept", "the code with the call", "the code to keep"
MODULE = "gpuadmin.node.operation"


def action(
    cls: type[Any], monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]], **task: Any
) -> tuple[Any, list[tuple[str, dict[str, Any], dict[str, Any]]]]:
    """An action plugin whose hosts give these answers, and the calls that it makes."""
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    replies: Iterator[dict[str, Any]] = iter(answers)

    def execute(name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        assert name == MODULE
        calls.append((CARRY if "code" in arguments else RUN, dict(arguments), more))
        arguments["_ansible_left"] = "by Ansible"  # it adds its own to what it is given
        return dict(next(replies))

    made = object.__new__(cls)
    made._task = SimpleNamespace(
        **{"args": dict(ARGUMENTS), "action": "gpuadmin.node.accounts", "check_mode": False, "_role": None, **task}
    )
    made._templar = SimpleNamespace(template=lambda value: value)
    monkeypatch.setattr(ActionBase, "run", lambda _self, _tmp=None, _variables=None: {})
    monkeypatch.setattr(made, "_execute_module", execute)

    def command(line: str, in_data: bytes) -> dict[str, Any]:
        calls.append((SEND, {"line": shlex.split(line), "text": zlib.decompress(in_data)}, {}))
        return dict(next(replies))

    monkeypatch.setattr(made, "_low_level_execute_command", command)
    return made, calls


NEW, ABSENT, UNSAFE = (
    {"changed": False, "kept": word, "python": "/opt/a b/python"}
    for word in ("new", "absent", "/var can be written by others")
)
SENT, FULL = {"rc": 0, "stderr": ""}, {"rc": 1, "stderr": "a warning\n/var/lib: No space left on device\n"}


@pytest.mark.holds("check mode brings no code")
@pytest.mark.parametrize(
    ("check", "answers", "expected"),
    [
        pytest.param(False, [DONE], [RUN], id="it has the code"),
        pytest.param(True, [DONE], [RUN], id="it has the code, and only looks"),
        pytest.param(False, [NEW, DONE], [RUN, CARRY], id="gpuadmin has nothing there"),
        pytest.param(False, [ABSENT, SENT, DONE], [RUN, SEND, RUN], id="the code is sent once"),
        pytest.param(True, [ABSENT, DONE], [RUN, CARRY], id="check mode leaves nothing"),
        pytest.param(False, [ABSENT, FULL, DONE], [RUN, SEND, CARRY], id="a full disk"),
        pytest.param(False, [ABSENT, SENT, ABSENT, DONE], [RUN, SEND, RUN, CARRY], id="gone again"),
        pytest.param(False, [UNSAFE, DONE], [RUN, CARRY], id="others could have written it"),
    ],
)
def test_what_is_called(
    monkeypatch: pytest.MonkeyPatch, check: bool, answers: list[dict[str, Any]], expected: list[str]
) -> None:
    made, calls = action(operation.ActionModule, monkeypatch, answers, check_mode=check)
    result = made.run()
    assert [name for name, _arguments, _more in calls] == expected
    remarks = result.pop("remarks", [])
    assert result == DONE
    reason = "/var can be written by others" if UNSAFE in answers else "/var/lib: No space left on device"
    told = [f"the node code there is not run: {reason}"] if UNSAFE in answers or FULL in answers else []
    assert remarks == told, "an admin is told why a host is slow, and of a fault there"
    for name, given, _more in calls:
        if name == RUN:
            assert given["digest"] == code().digest
            assert given["operation"] == "accounts"
            assert unpacked(given["document"]) == ARGUMENTS
        elif name == SEND:
            assert given["line"] == ["/opt/a b/python", "-I", "-S", "-c", ARRIVE, code().digest, "/var/lib/gpuadmin"]
            assert hashlib.sha256(given["text"]).hexdigest() == code().digest
        else:
            assert unpacked(given["document"]) == ARGUMENTS
            assert unpacked(given["code"]) == json.loads(code().text)


@pytest.mark.parametrize(
    ("cls", "task", "takeover"),
    [
        (operation.ActionModule, {"action": "gpuadmin.node.renumber"}, True),
        (operation.ActionModule, {"action": "gpuadmin.node.accounts"}, False),
        (code_action.ActionModule, {"action": "gpuadmin.node.code", "args": {"link": True, "takeover": True}}, True),
        (code_action.ActionModule, {"action": "gpuadmin.node.code", "args": {"link": True}}, False),
    ],
)
def test_only_calls_of_the_take_over_bring_its_code(
    monkeypatch: pytest.MonkeyPatch, cls: type[Any], task: dict[str, Any], takeover: bool
) -> None:
    made, calls = action(cls, monkeypatch, [ABSENT, SENT, DONE], **task)
    made.run()
    digest = code(takeover).digest
    assert [given.get("digest") for name, given, _more in calls if name == RUN] == [digest, digest]
    assert [hashlib.sha256(given["text"]).hexdigest() for name, given, _more in calls if name == SEND] == [digest]


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_a_failure_of_the_operation_is_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran: nothing is done twice."""
    failed = {"failed": True, "msg": "two people have one uid", "remarks": ["x"]}
    made, calls = action(operation.ActionModule, monkeypatch, [failed])
    assert made.run() == failed
    assert len(calls) == 1


def test_all_remarks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the operation, and why the host is slow, which may not even say so, nor by which Python."""
    silent = {"rc": 7, "stderr": ""}
    made, calls = action(operation.ActionModule, monkeypatch, [{"kept": "absent"}, silent, {**DONE, "remarks": ["x"]}])
    assert made.run()["remarks"] == ["x", "the node code there is not run: exit status 7"]
    assert calls[1][1]["line"][0] == "/usr/bin/python3"


LINKED, MISSING = ({"missing": missing, "changed": True} for missing in (False, True))


@pytest.mark.holds("a look leaves no code on the host")
@pytest.mark.parametrize(
    ("check", "answers", "expected"),
    [
        pytest.param(False, [LINKED], [RUN], id="it has the code"),
        pytest.param(False, [ABSENT, SENT, LINKED], [RUN, SEND, RUN], id="it has that of another day"),
        pytest.param(False, [NEW, MISSING, SENT, LINKED], [RUN, CARRY, SEND, RUN], id="gpuadmin has nothing there"),
        pytest.param(True, [NEW, MISSING], [RUN, CARRY], id="check mode leaves nothing"),
        pytest.param(False, [NEW, MISSING, FULL], [RUN, CARRY, SEND], id="a full disk"),
    ],
)
def test_the_code_is_sent_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, check: bool, answers: list[dict[str, Any]], expected: list[str]
) -> None:
    given = {"link": True, "state_directory": "/x"}
    made, calls = action(code_action.ActionModule, monkeypatch, answers, check_mode=check, args=given)
    full = {"failed": True, "msg": "the node code is not kept: /var/lib: No space left on device"}
    assert made.run() == (full if FULL in answers else answers[-1])
    assert [name for name, _given, _more in calls] == expected
    for name, arguments, _more in calls:
        if name == CARRY:
            assert unpacked(arguments["document"]) == {**given, "digest": code().digest}
        elif name == SEND and NEW in answers:
            assert arguments["line"][-1] == "/x"

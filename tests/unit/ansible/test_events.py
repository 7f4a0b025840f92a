"""From Ansible's events to a result per host, in words."""

from typing import Any

import pytest

from gpuadmin.ansible.events import Collector, failure_message, unreachable_message
from gpuadmin.errors import ExitCode
from gpuadmin.results import HostResult, RunResult


def collected(*events: tuple[str, str, dict[str, Any]]) -> dict[str, HostResult]:
    """Given (kind, host, event data), return the hosts' results."""
    collector = Collector(on_task=lambda name: None, on_host=lambda host, outcome, detail: None)
    for kind, host, data in events:
        event = kind if kind.startswith("runner_") else f"runner_on_{kind}"
        collector.event({"event": event, "event_data": {"host": host, "task": "role : Do it", **data}})
    return collector.hosts


def ok(host: str = "n", **result: Any) -> tuple[str, str, dict[str, Any]]:
    return ("ok", host, {"res": result})


def item(**result: Any) -> tuple[str, str, dict[str, Any]]:
    return ("runner_item_on_ok", "n", {"res": result})


OK = {"status": "ok"}
STEP = ' (at the step "Do it")'
REFUSED = ("failed", "n", {"res": {"msg": "x", "report": {"begun": False}}})
FAILED = ("failed", "n", {"res": {"msg": "y"}})
ODD = "its answer is not understood"
TABLE: dict[str, tuple[list[tuple[str, str, dict[str, Any]]], HostResult]] = {
    "nothing to do": ([ok(), ok()], HostResult("ok")),
    "all skipped": ([("skipped", "n", {})], HostResult("skipped")),
    "a change": ([ok(), ok(changed=True), ok()], HostResult("changed", ["Do it"])),
    "away in the middle of a loop": (
        [item(changed=True, operations=["write a"]), ("unreachable", "n", {"res": {"msg": "z"}})],
        HostResult("unreachable", ["write a"], "z"),
    ),
    "operations": (
        [ok(changed=True, operations=["add minji", "add jiho"])], HostResult("changed", ["add minji", "add jiho"]),
    ),
    "what the items of a loop did": (
        [item(changed=True, operations=["write a"]), item(operations=["x"]),
         item(changed=True, operations=["write b"]), ok(changed=True), ok(changed=True)],
        HostResult("changed", ["write a", "write b", "Do it"]),
    ),
    "what the items of a loop did before it failed": (
        [item(changed=True, operations=["write a"]), ("failed", "n", {"res": {"msg": "no space"}})],
        HostResult("failed", ["write a"], f"no space{STEP}"),
    ),
    "an item's operations that are none": (
        [item(changed=True, operations=5), ok(changed=True)],
        HostResult("failed", ["Do it"], f"{ODD}: operations is not a list of texts{STEP}"),
    ),
    "operations without a change are no change": ([ok(operations=["x"])], HostResult("ok")),
    "a failure": (
        [ok(changed=True), ("failed", "n", {"res": {"msg": "no space"}})],
        HostResult("failed", ["Do it"], f"no space{STEP}"),
    ),
    "what fails with a sentence of ours": (
        [("failed", "n", {"res": {"msg": "no space is left", "operations": []}})],
        HostResult("failed", [], "no space is left"),
    ),
    "what goes on after a failure, and ends with the same": (
        [("failed", "n", {"res": {"msg": "no unit"}, "task_action": "ansible.builtin.systemd_service"}),
         ("failed", "n", {"res": {"msg": "no unit"}, "task_action": "ansible.builtin.fail"})],
        HostResult("failed", [], f"no unit{STEP}"),
    ),
    "two sentences of ours": (
        [("failed", "n", {"res": {"msg": one, "operations": []}}) for one in ("no space", "lost")],
        HostResult("failed", [], "lost"),
    ),
    "what a module did before it failed is done": (
        [("failed", "n", {"res": {"msg": "conflict", "operations": ["add minji"]}})],
        HostResult("failed", ["add minji"], "conflict"),
    ),
    "ignored": ([("failed", "n", {"res": {"msg": "x"}, "ignore_errors": True}), ok()], HostResult("ok")),
    "what began nothing": ([REFUSED], HostResult("failed", [], f"x{STEP}", refused=True)),
    "what began nothing, twice": ([REFUSED, REFUSED], HostResult("failed", [], f"x{STEP}", refused=True)),
    "what began nothing, after what failed": ([FAILED, REFUSED], HostResult("failed", [], f"x{STEP}")),
    "what failed, after what began nothing": ([REFUSED, FAILED], HostResult("failed", [], f"y{STEP}")),
    "what does not say whether it began": (
        [("failed", "n", {"res": {"msg": "x", "report": {"begun": "no"}}})], HostResult("failed", [], f"x{STEP}"),
    ),
    "a failure is not forgotten": (
        [("failed", "n", {"res": {"msg": "x"}}), ok(changed=True, operations=["close the root"])],
        HostResult("failed", ["close the root"], f"x{STEP}"),
    ),
    "unreachable": (
        [("unreachable", "n", {"res": {"msg": "ssh: connect to host 10.0.0.9 port 22: Connection refused"}})],
        HostResult("unreachable", [], "nothing answers on its ssh port (connection refused)"),
    ),
    "reports are merged": (
        [ok(report={"homes": {"minji": OK}}), ok(report={"users": {"minji": OK}})],
        HostResult("ok", reports={"homes": {"minji": OK}, "users": {"minji": OK}}),
    ),
    "what has an entry for each person comes as text": (
        [ok(each={"users": '{"minji": {"status": "ok"}}'}, report={"problems": ["a"]}), ok(report={"problems": ["b"]})],
        HostResult("ok", reports={"users": {"minji": OK}, "problems": ["a", "b"]}),
    ),
    "text that is not JSON": (
        [ok(each={"homes": "{", "x": 1}, changed=True, operations=["add minji"])],
        HostResult("failed", ["add minji"], f"its answer is not understood: homes is not JSON{STEP}"),
    ),
    "what is odd about a report": (
        [ok(report={"users": {"minji": OK}}), ok(report={"users": {"minji": {"status": 5}}, "problems": ["a"]})],
        HostResult("failed", [], f"{ODD}: users.minji.status: input should be a valid string{STEP}",
                   {"problems": ["a"]}),
    ),
    "operations that are none": (
        [ok(changed=True, operations=5), ok(operations=["x", 1], changed=True)],
        HostResult("failed", ["Do it", "Do it"], f"{ODD}: operations is not a list of texts{STEP}"),
    ),
    "a report of a name that nobody reads": ([ok(report={"x": 1})], HostResult("ok")),
    "a report that is none": (
        [ok(report=5)], HostResult("failed", [], f"its answer is not understood: report is not an object{STEP}"),
    ),
    "a remark without an end": (
        [ok(remarks=["a" * 9999, "b"])], HostResult("ok", message="a" * 4000),
    ),
    "sudo's own words": (
        [("failed", "n", {"res": {
            "msg": "Module result deserialization failed: No start of json char found", "module_stdout": "",
            "module_stderr": "sudo: sorry, you must have a tty to run sudo\r\nShared connection to n closed.\r\n"}})],
        HostResult("failed", [], "sudo: sorry, you must have a tty to run sudo"
                                 f" (requiretty is in its sudoers: visudo there, and take it out){STEP}"),
    ),
    "sudo's own words, where Ansible waits for it": (
        [("failed", "n", {"res": {"msg": "Task failed: Premature end of stream waiting for become success.\n"
                                         ">>> Standard Error\nops is not in the sudoers file."}})],
        HostResult("failed", [], f"ops is not in the sudoers file. (its sudoers has no rule for this account){STEP}"),
    ),
    "a module whose program wrote to its output alone": (
        [("failed", "n", {"res": {"msg": "Module result deserialization failed.", "module_stdout": "no space left"}})],
        HostResult("failed", [], f"no space left{STEP}"),
    ),
    "a module that ends without JSON": (
        [("failed", "n", {"res": {"msg": "MODULE FAILURE: see stderr", "module_stderr": "Traceback\nKeyError: 'x'"}})],
        HostResult("failed", [], f"KeyError: 'x'{STEP}"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected"), TABLE.values(), ids=TABLE.keys())
def test_one_host(events: list[tuple[str, str, dict[str, Any]]], expected: HostResult) -> None:
    assert collected(*events) == {"n": expected}


def test_hosts_are_kept_apart() -> None:
    hosts = collected(ok("a", changed=True), ("failed", "b", {"res": {"msg": "x"}}), ok("c"))
    assert {name: host.status for name, host in hosts.items()} == {"a": "changed", "b": "failed", "c": "ok"}


def test_events_of_no_host_are_no_hosts() -> None:
    called: list[str] = []
    collector = Collector(on_task=called.append, on_host=lambda host, outcome, detail: None)
    for kind in ("playbook_on_start", "verbose", "playbook_on_stats", "warning", "error"):
        collector.event({"event": kind, "event_data": {}})
    collector.event({"event": "verbose", "stdout": "x"})
    collector.event({"event": "playbook_on_task_start", "event_data": {"task": "accounts : Apply the accounts"}})
    assert (collector.hosts, called) == ({}, ["Apply the accounts"])


FAILURES = [
    ({"msg": "no space"}, [], f"no space{STEP}"),
    ({"msg": "non-zero return code", "rc": 2, "cmd": ["mount", "/home"]}, [], "ended with 2: mount /home"),
    ({"msg": "non-zero return code", "rc": 2, "cmd": ["x"], "stderr": "a\nmount: busy"}, [], f"mount: busy{STEP}"),
    ({"msg": "One or more items failed"}, ["a is wrong", "b is wrong", "a is wrong"], f"a is wrong; b is wrong{STEP}"),
    ({}, [], f"failed without a message{STEP}"),
    ({"msg": "a\n  b"}, [], f"a b{STEP}"),
]


@pytest.mark.parametrize(("result", "items", "words"), FAILURES)
def test_failures_in_words(result: dict[str, Any], items: list[str], words: str) -> None:
    assert failure_message(result, items, "Do it", "ansible.builtin.command") == words
    assert len(failure_message({"msg": "x" * 5000}, items, "T", "")) < 700


UNKNOWN = "No ED25519 host key is known for x and you have requested strict checking."
UNREACHABLE = {
    "Failed to connect to the host via ssh: ssh: connect to host x port 22: Connection timed out": "timed out",
    "kex_exchange_identification: Connection closed by remote host": "was cut",
    "ssh: Could not resolve hostname nix: Name or service not known": "cannot be resolved",
    "gpuadmin@10.0.0.1: Permission denied (publickey,password).": "refuses our login",
    "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@ Host key verification failed.": "not the pinned one",
    f"{UNKNOWN} Host key verification failed.": "trust",
    f"{UNKNOWN}\r\nHost key verification failed.": "not known yet",
    "ssh: connect to host x port 22: No route to host": "over the network",
    "Failed to connect to the host via ssh: not now\n\nConnection closed by 10.0.0.1 port 22": "the host said: not now",
    'Task failed: Data could not be sent to remote host "x". Make sure this host can be reached over ssh: not now\n'
    "Connection closed by 10.0.0.1 port 22": "cut; the host said: not now",
    "Failed to connect to the host via ssh: Connection closed by 10.0.0.1 port 22": "was cut",
    "something new": "something new",
    "": "unreachable",
}


@pytest.mark.parametrize(("message", "words"), UNREACHABLE.items())
def test_unreachable_in_words(message: str, words: str) -> None:
    assert words in unreachable_message(message)


def test_what_a_host_says_before_it_ends_the_connection_is_told_in_short() -> None:
    words = "maintenance\r\n until Monday " + "x" * 200
    message = unreachable_message(
        f"Failed to connect to the host via ssh: {words}\r\nConnection closed by 10.0.0.1 port 22"
    )
    assert message.startswith("the ssh connection was cut; the host said: maintenance until Monday xxx")
    assert len(message) < 200
    assert unreachable_message("Connection closed by 10.0.0.1 port 22") == "the ssh connection was cut"


CODES = [
    ((), False, None, 0),
    (("ok", "changed", "skipped"), False, None, 0),
    (("ok", "failed"), False, None, 3),
    (("unreachable", "failed"), False, None, 3),
    (("unreachable", "ok"), False, None, 4),
    (("ok",), False, "no such playbook", 1),
    (("failed",), True, None, 130),
    ((), True, None, 130),
]


@pytest.mark.parametrize(("states", "interrupted", "error", "code"), CODES)
def test_exit_codes(states: tuple[str, ...], interrupted: bool, error: str | None, code: int) -> None:
    hosts = {str(index): HostResult(state) for index, state in enumerate(states)}
    assert RunResult(hosts, interrupted=interrupted, error=error).code == ExitCode(code)


def test_progress_is_told_and_a_failure_once() -> None:
    called: list[tuple[str, str, str]] = []
    collector = Collector(on_task=lambda name: None, on_host=lambda *words: called.append(words))

    def event(kind: str, task: str, **result: Any) -> None:
        collector.event({"event": kind, "event_data": {"host": "n", "task": f"role : {task}", "res": result}})

    event("runner_retry", "Fetch", progress="fetching 1.0 of 2.0 MB")
    event("runner_retry", "Fetch")
    event("runner_on_failed", "Fetch", msg="no store")
    event("runner_on_failed", "Report what went wrong", msg="no store")
    told = [words for words in called if words[1] not in ("done", "skipped")]
    assert told == [("n", "progress", "fetching 1.0 of 2.0 MB"), ("n", "failed", 'no store (at the step "Fetch")')]
    assert collector.hosts["n"].message == 'no store (at the step "Fetch")', "which says where it was"


def test_a_host_that_has_begun_and_one_that_has_done_it() -> None:
    called: list[tuple[str, str, str]] = []
    collector = Collector(on_task=lambda name: None, on_host=lambda *words: called.append(words))
    for kind in ("start", "ok", "start", "unreachable", "start", "skipped", "start", "failed"):
        collector.event({"event": f"runner_on_{kind}", "event_data": {"host": "n", "task": "Do it", "res": {}}})
    assert ("n", "begun", "Do it") in called, "with the task's name: other hosts may be at another one"
    assert [outcome for _, outcome, _ in called if outcome in ("begun", "done", "skipped")] == [
        *("begun", "done") * 2, "begun", "skipped", "begun", "done",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["No room.", "in use"], ["No room.", "in use"]),
        (["x" * 1000], ["x" * 600]),
        (["x"] * 1000, ["x"] * 50),
        ("a text", []),
        ([1, None], []),
        ({"a": 1}, []),
        (None, []),
    ],
)
def test_obstacles_are_sentences_and_all_of_them_count(given: object, found: list[str]) -> None:
    host = collected(("failed", "n", {"res": {"msg": "not ready", "obstacles": given}}))["n"]
    assert host.obstacles == found
    assert host.message == ("; ".join(one.rstrip(".") for one in found) or f"not ready{STEP}")
    assert host.untouched == bool(found)


@pytest.mark.parametrize(
    ("stats", "told"),
    [
        ({"data": {"gpuadmin_seconds": 900}}, ["900"]),
        ({"data": {"gpuadmin_seconds": "900"}}, ["900"]),
        ({"data": {"gpuadmin_seconds": 10**9}}, []),
        ({"data": {"gpuadmin_seconds": -1}}, []),
        ({"data": {"other": 900}}, []),
        ({"data": 900}, []),
        (900, []),
    ],
)
def test_how_long_the_next_task_may_take(stats: object, told: list[str]) -> None:
    called: list[tuple[str, str, str]] = []
    collector = Collector(on_task=lambda name: None, on_host=lambda *words: called.append(words))
    collector.event({"event": "runner_on_ok", "event_data": {"host": "n", "res": {"ansible_stats": stats}}})
    assert [detail for _, outcome, detail in called if outcome == "limit"] == told

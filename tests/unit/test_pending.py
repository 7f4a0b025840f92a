"""What is left of earlier runs, by their records."""

from typing import Any

import pytest

from gpuadmin.pending import pending

Run = tuple[dict[str, Any], dict[str, Any] | None]
AWAY = {"node1": "ok", "node2": "unreachable"}
GOOD = {"node1": "ok", "node2": "changed"}


def run(line: str, code: int | None = 0, hosts: dict[str, str] | None = None, **more: Any) -> Run:
    """A run's record: its command line, its exit code (None: it was cut off), and the hosts' states."""
    verb, *_ = arguments = line.split()
    status = "unfinished" if code is None else "refused" if code == 5 else "ok" if code == 0 else "failed"
    record = {"id": f"id-{verb}", "verb": verb, "arguments": arguments, "check": False, "started": "2026-11-21",
              "status": status, "exit_code": code, **more}  # fmt: skip
    found: dict[str, Any] = {
        name: {"status": state, "changed": [], "message": None} for name, state in (hosts or {}).items()
    }
    return record, None if code is None else {"hosts": found}


def reached(what: str, code: int) -> Run:
    """A run that an error ended, and how far it had come."""
    record, result = run(f"restore-home {what}{code}", code)
    assert result is not None
    return record, {**result, "reached": what}


ADD = run("add-user minji --yes", 4, AWAY)
# oldest first: what ran, and of which verbs something is left, on which hosts
CASES: dict[str, tuple[list[Run], list[tuple[str, list[str]]]]] = {
    "all is well": ([run("add-user minji", 0, GOOD)], []),
    "a host was away": ([ADD], [("add-user", ["node2"])]),
    "its turn did not come": (
        [
            run("prepare-root", 4, {"storage1": "unreachable", "node1": "not run"}),
            run("prepare-root --limit storage1", 0, {"storage1": "ok"}),
        ],
        [("prepare-root", ["node1"])],
    ),
    "it came back, and the same was run": ([ADD, run("add-user minji -y --json", 0, GOOD)], []),
    "it came back, and the same was run for it alone": (
        [ADD, run("add-user --limit node2 minji --site /other", 0, {"node2": "changed"})],
        [],
    ),
    "the same, in other words": ([ADD, run("add-user minji --limit=node2 --site=/x", 0, {"node2": "ok"})], []),
    "somebody else was added": ([ADD, run("add-user jiho --yes", 0, GOOD)], [("add-user", ["node2"])]),
    "hosts were brought to users.yml": ([ADD, run("sync-users --yes", 0, GOOD)], []),
    "by provision": ([ADD, run("provision --yes", 0, GOOD)], []),
    "only that host": ([ADD, run("sync-users --limit node2", 0, {"node2": "changed"})], []),
    "only the other host": ([ADD, run("sync-users --limit node1", 0, {"node1": "ok"})], [("add-user", ["node2"])]),
    "in check mode": ([ADD, run("sync-users --check", 0, GOOD, check=True)], [("add-user", ["node2"])]),
    "it is away still": ([ADD, run("sync-users", 4, AWAY)], [("sync-users", ["node2"]), ("add-user", ["node2"])]),
    "a look that failed": ([run("list-users", 4, AWAY, check=True)], []),
    "cut off": ([run("provision", None)], [("provision", [])]),
    "cut off, and run again": ([run("provision", None), run("provision -v", 0, GOOD)], []),
    "cut off, and run for some": (
        [run("provision", None), run("provision --limit=node1", 0, {"node1": "ok"})],
        [("provision", [])],
    ),
    "cut off, and then one was away": (
        [run("provision", None), run("provision", 4, AWAY)],
        [("provision", ["node2"]), ("provision", [])],
    ),
    "it failed on a host, and was run again there": (
        [run("backup", 3, {"storage1": "failed"}), run("backup --limit storage1", 0, {"storage1": "changed"})],
        [],
    ),
    "interrupted, and run again on a host": (
        [run("backup", 130, {"storage1": "interrupted"}), run("backup --limit storage1", 0, {"storage1": "changed"})],
        [("backup", [])],
    ),
    "interrupted": ([run("backup", 130, {"storage1": "ok"})], [("backup", [])]),
    "interrupted, and where": (
        [run("provision", 130, {"node1": "changed", "node2": "interrupted", "node3": "not run"})],
        [("provision", ["node2", "node3"])],
    ),
    "interrupted, and finished there": (
        [
            run("provision", 130, {"node1": "changed", "node2": "interrupted"}),
            run("provision --limit node2", 0, {"node2": "ok"}),
        ],
        [],
    ),
    "it was dismissed": ([run("provision", 3, AWAY, dismissed={"who": "a", "at": "2026-11-21"})], []),
    "one of two was dismissed": (
        [run("backup", 3, AWAY), run("backup", 3, AWAY, dismissed={"who": "a", "at": "2026-11-21"})],
        [("backup", ["node2"])],
    ),
    "it ended before anything was done": (
        [reached("nothing", 1), reached("nothing", 130), reached("confirmed", 2)],
        [],
    ),
    "it ended when something was done": (
        [reached("sent", 2), reached("confirmed", 1)],
        [("restore-home", []), ("restore-home", [])],
    ),
    "nothing was begun": ([run("add-user ../x", 2), run("lock-user root", 5)], []),
    "another image came there": ([run("push-image a", 3, AWAY), run("push-image b", 0, GOOD)], []),
    "an archive that no other verb makes": (
        [run("remove-user minji --archive-home", 3, {"storage1": "failed"}), run("sync-users", 0, {"storage1": "ok"})],
        [("remove-user", ["storage1"])],
    ),
    "a uid that no other verb lets go": (
        [run("remove-user minji --forget", 3, {"storage1": "failed"}), run("sync-users", 0, {"storage1": "ok"})],
        [("remove-user", ["storage1"])],
    ),
    "another home was restored": (
        [run("restore-home minji", 3, {"storage1": "failed"}), run("restore-home jiho", 0, {"storage1": "changed"})],
        [("restore-home", ["storage1"])],
    ),
    "the same home was restored": (
        [run("restore-home minji", 3, {"storage1": "failed"}), run("restore-home minji", 0, {"storage1": "changed"})],
        [],
    ),
    "mails that could not be sent": ([run("add-user minji --mail", 1, GOOD)], [("add-user", [])]),
    "an audit that did not know all": ([run("audit --record", 3, GOOD)], []),
    "what has a journal of its own": ([run("semester-reset", 4, AWAY), run("notify", 1)], []),
    "a command of the admin's own": ([run("run gpu -- false", 3, {"node1": "failed"})], []),
    "a damaged record": ([run("backup", None, status="damaged")], [("backup", [])]),
}


@pytest.mark.parametrize(("runs", "left"), CASES.values(), ids=CASES.keys())
def test_what_is_left(runs: list[Run], left: list[tuple[str, list[str]]]) -> None:
    assert [(one.verb, list(one.hosts)) for one in pending(reversed(runs))] == left


def test_it_says_why() -> None:
    record, result = run("add-user minji", 4, AWAY)
    assert result is not None
    result["hosts"]["node2"]["message"] = "does not answer (timed out)"
    (one,) = pending([(record, result)])
    assert one.document() == {
        "run": "id-add-user",
        "verb": "add-user",
        "arguments": ["add-user", "minji"],
        "started": "2026-11-21",
        "status": "failed",
        "hosts": {"node2": "does not answer (timed out)"},
        "silent": ["node2"],
    }


def test_a_run_of_an_earlier_version_that_was_interrupted_is_called_so() -> None:
    (left,) = pending([run("provision", 130, {"node1": "ok"})])
    assert left.status == "interrupted"

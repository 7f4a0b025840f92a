"""Who came to the end of a playbook that was interrupted: only those of whom it was heard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.finished import Finished, last_tasks
from gpuadmin.content import content_path

ROLES = content_path("roles")
PROVISION = content_path("playbooks", "provision.yml")
GPUS = (str(PROVISION), "Set up the GPUs")
CHECK = (
    str(ROLES / "gpu_stack/tasks/check.yml"),
    "Check that each kernel has the module, and that the libraries are of its version",
)
ACCOUNTS = (str(PROVISION), "Set up the accounts")  # fmt: skip


def event(kind: str, task: tuple[str, str], host: str = "node1", uuid: str = "1") -> dict[str, Any]:
    data = {"host": host, "task": f"role : {task[1]}", "task_path": f"{task[0]}:12", "task_uuid": uuid}
    return {"event": kind, "event_data": data}


CASES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "nothing was heard": ([], False),
    "a task of the middle": ([event("runner_on_ok", ACCOUNTS)], False),
    "the last include was begun": ([event("runner_on_ok", GPUS)], False),
    "the last include is not for it": ([event("runner_on_skipped", GPUS)], True),
    "one of the middle is not for it": ([event("runner_on_skipped", ACCOUNTS)], False),
    "the last task": ([event("runner_on_ok", GPUS), event("runner_on_ok", CHECK)], True),
    "the last task, skipped": ([event("runner_on_skipped", CHECK)], True),
    "in the middle of the last task": ([event("runner_on_start", CHECK)], False),
    "a handler goes on": (
        [*(event(f"runner_on_{kind}", CHECK) for kind in ("start", "ok")), event("runner_on_start", CHECK, uuid="2")],
        False,
    ),
    "another host": ([event("runner_on_ok", CHECK, "node2")], False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_end_has_to_be_heard(name: str) -> None:
    events, done = CASES[name]
    heard = Finished()
    for one in [{"event": "playbook_on_start"}, *events]:
        heard.event(one)
    assert heard.unfinished(["node1"], PROVISION, ROLES) == ([] if done else ["node1"])


@pytest.mark.parametrize("playbook", sorted(content_path("playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_the_last_task_of_each_playbook_is_known(playbook: Path) -> None:
    above, leaf = last_tasks(playbook, ROLES)
    where = {"reboot", "shutdown"}  # what these do last is named only while they run
    assert (leaf is None) == (playbook.stem in where)
    assert all(Path(file).is_file() and name for file, name in [*above, *([leaf] if leaf else [])])

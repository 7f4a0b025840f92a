"""Who came to the end of a playbook that was interrupted: only those of whom it was heard."""

from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.finished import Finished, last_tasks
from gpuadmin.content import content_path

ROLES = content_path("roles")
PROVISION = content_path("playbooks", "provision.yml")


def at(file: Path, name: str) -> str:
    """The path of the last task of that name in a file, as Ansible has it."""
    lines = file.read_text().splitlines()
    names = (line.partition("  #")[0].strip() for line in lines)
    wanted = f"- name: {name}", f"- {{name: {name},"
    found = (number for number, line in enumerate(names, 1) if line == wanted[0] or line.startswith(wanted[1]))
    return f"{file}:{max(found)}"


HOMES, ACCOUNTS = at(PROVISION, "Look whether the homes can be mounted"), at(PROVISION, "Set up the accounts")
CHECK = at(ROLES / "homes_client/tasks/mounted.yml", "Mount the homes now")


def event(kind: str, task: str, host: str = "node1", uuid: str = "1") -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task_path": task, "task_uuid": uuid}}


CASES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "nothing was heard": ([], False),
    "a task of the middle": ([event("runner_on_ok", ACCOUNTS)], False),
    "the last include was begun": ([event("runner_on_ok", HOMES)], False),
    "the last include is not for it": ([event("runner_on_skipped", HOMES)], True),
    "one of the middle is not for it": ([event("runner_on_skipped", ACCOUNTS)], False),
    "the last task": ([event("runner_on_ok", HOMES), event("runner_on_ok", CHECK)], True),
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
    assert heard.unfinished(["node1"], PROVISION, ROLES, {}) == ([] if done else ["node1"])


@pytest.mark.parametrize("playbook", sorted(content_path("playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_the_last_task_of_each_playbook_is_known(playbook: Path) -> None:
    above, leaf = last_tasks(playbook, ROLES, {})
    assert leaf is not None
    for path in (*above, leaf):
        file, _, line = path.rpartition(":")
        assert Path(file).read_text().splitlines()[int(line) - 1].lstrip().startswith("- name: ")


def test_a_file_that_a_variable_names() -> None:
    playbook = content_path("playbooks", "reboot.yml")
    _, leaf = last_tasks(playbook, ROLES, {"gpuadmin_power_tasks": "withdraw"})
    assert (leaf or "").startswith(str(ROLES / "power/tasks/withdraw.yml"))
    assert last_tasks(playbook, ROLES, {"gpuadmin_power_tasks": "nowhere"})[1] is None


def test_the_last_task_of_a_block_is_meant(tmp_path: Path) -> None:
    """A block is not a task: nothing is ever heard of it, and everybody would count as interrupted."""
    book = tmp_path / "play.yml"
    for also, last in ("", "inside"), ("      always:\n        - name: always\n          a: {}\n", "always"):
        book.write_text(
            "- hosts: all\n  tasks:\n    - name: outer\n      block:\n        - name: inside\n          a: {}\n" + also
        )
        assert last_tasks(book, ROLES, {}) == ([], at(book, last))

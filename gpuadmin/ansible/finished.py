"""Which hosts came to the end of a playbook that was interrupted: those of which its last task was heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_ROLES = ("ansible.builtin.include_role", "ansible.builtin.import_role")
_FILES = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")

Task = tuple[str, str]  # the file that it stands in, and its name


def last_tasks(playbook: Path, roles: Path) -> tuple[list[Task], Task | None]:
    """Given a playbook, return what includes its last task, from the outside in, and that task.

    None where the playbook does not say which is the last: it is a name that is made during the run, or a meta task.
    """
    play = _read(playbook)[-1]
    imported = play.get("ansible.builtin.import_playbook")
    if imported is not None:
        return last_tasks(playbook.with_name(imported), roles)
    if "tasks" not in play:
        return _within(roles / play["roles"][-1]["role"] / "tasks/main.yml", roles)
    return _last(play["tasks"], playbook, roles)


def _within(file: Path, roles: Path) -> tuple[list[Task], Task | None]:
    return _last(_read(file), file, roles) if file.exists() else ([], None)


def _last(tasks: Sequence[Mapping[str, Any]], file: Path, roles: Path) -> tuple[list[Task], Task | None]:
    task = tasks[-1]
    name = task.get("name")
    own: Task | None = (str(file), str(name))
    if [other.get("name") for other in tasks].count(name) > 1:  # several have this name: which was heard is not known
        own = None
    if "block" in task:
        return _last(task.get("always") or task["block"], file, roles)
    for kind in _ROLES:
        if kind in task:
            called = f"{task[kind]['name']}/tasks/{task[kind].get('tasks_from', 'main')}.yml"
            above, leaf = _within(roles / called, roles)
            return [*([own] if own else []), *above], leaf
    for kind in _FILES:
        if kind in task:
            above, leaf = _within(file.with_name(str(task[kind])), roles)
            return [*([own] if own else []), *above], leaf
    return [], None if "ansible.builtin.meta" in task else own


class Finished:
    """Takes ansible-runner's events one by one. `unfinished` says of which hosts the end was not heard."""

    def __init__(self) -> None:
        self._ended: dict[str, set[Task]] = {}
        self._skipped: dict[str, set[Task]] = {}
        self._going_on: dict[str, set[str]] = {}

    def event(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        data = event.get("event_data") or {}
        kind, host = str(event.get("event", "")), str(data.get("host", ""))
        if not host:
            return
        uuid = str(data.get("task_uuid"))
        task = str(data.get("task_path")).rpartition(":")[0], str(data.get("task")).rpartition(" : ")[2]
        if kind == "runner_on_start":
            self._going_on.setdefault(host, set()).add(uuid)
        elif kind in ("runner_on_ok", "runner_on_failed", "runner_on_skipped", "runner_on_unreachable"):
            self._going_on.setdefault(host, set()).discard(uuid)
            self._ended.setdefault(host, set()).add(task)
            if kind == "runner_on_skipped":
                self._skipped.setdefault(host, set()).add(task)

    def unfinished(self, hosts: Sequence[str], playbook: Path, roles: Path) -> list[str]:
        """Of these hosts, those that had not come to the end of the playbook. What is not known is not the end."""
        above, leaf = last_tasks(playbook, roles)
        return [
            host
            for host in hosts
            if self._going_on.get(host)
            or not (leaf in self._ended.get(host, set()) or self._skipped.get(host, set()) & set(above))
        ]


def _read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found

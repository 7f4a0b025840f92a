"""Which hosts had finished an interrupted playbook: those whose last task was heard of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_ROLES = ("ansible.builtin.include_role", "ansible.builtin.import_role")
_FILES = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")
_CHOSEN = re.compile(r"\{\{ (\w+)(?: \| default\('([a-z-]+)'\))? \}\}")
_LINE = ":line"

Task = str  # its file, a colon and its line: what Ansible calls its path


class _Loader(yaml.SafeLoader):
    """YAML whose mappings know in which line they begin."""


def _with_line(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    return {**loader.construct_mapping(node, deep=True), _LINE: node.start_mark.line + 1}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _with_line)


def last_tasks(playbook: Path, roles: Path, variables: Mapping[str, Any]) -> tuple[list[Task], Task | None]:
    """Given a playbook and its variables, return its last task, after the tasks that include it, the outermost first.

    None if the playbook does not say which is the last: its file is chosen during the run, or it is a meta task.
    """
    play = _read(playbook)[-1]
    imported = play.get("ansible.builtin.import_playbook")
    if imported is not None:
        return last_tasks(playbook.with_name(imported), roles, variables)
    if "tasks" not in play:
        return _within(roles / play["roles"][-1]["role"] / "tasks/main.yml", roles, variables)
    return _last(play["tasks"], playbook, roles, variables)


def _within(file: Path, roles: Path, variables: Mapping[str, Any]) -> tuple[list[Task], Task | None]:
    return _last(_read(file), file, roles, variables) if file.is_file() else ([], None)


def _last(
    tasks: Sequence[Mapping[str, Any]], file: Path, roles: Path, variables: Mapping[str, Any]
) -> tuple[list[Task], Task | None]:
    task = tasks[-1]
    own = f"{file}:{task[_LINE]}"
    if "block" in task:  # guard: of a block its last task is the end
        return _last(task.get("always") or task["block"], file, roles, variables)
    called = None
    for kind in _ROLES:
        if kind in task:
            name = _chosen(str(task[kind].get("tasks_from", "main")), variables)
            called = roles / task[kind]["name"] / f"tasks/{name}.yml"
    for kind in _FILES:
        if kind in task:
            called = file.with_name(_chosen(str(task[kind]), variables))
    if called is not None:
        above, leaf = _within(called, roles, variables)
        return [own, *above], leaf
    return [], None if "ansible.builtin.meta" in task else own


def _chosen(name: str, variables: Mapping[str, Any]) -> str:
    """The name of a file, where a variable of the run has it or its default does."""
    return _CHOSEN.sub(lambda match: str(variables.get(match[1], match[2])), name)


class Finished:
    """Takes ansible-runner's events one by one. `unfinished` returns the hosts that had not finished.

    `ended`: Ansible itself said that it had come to the playbook's end.
    """

    def __init__(self) -> None:
        self.ended = False
        self._ended: dict[str, set[Task]] = {}
        self._skipped: dict[str, set[Task]] = {}
        self._going_on: dict[str, set[str]] = {}

    def event(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        data = event.get("event_data") or {}
        kind, host = str(event.get("event", "")), str(data.get("host", ""))
        self.ended = self.ended or kind == "playbook_on_stats"
        uuid, task = str(data.get("task_uuid")), str(data.get("task_path"))
        if host and kind == "runner_on_start":
            self._going_on.setdefault(host, set()).add(uuid)
        elif host and kind in ("runner_on_ok", "runner_on_failed", "runner_on_skipped", "runner_on_unreachable"):
            self._going_on.setdefault(host, set()).discard(uuid)
            self._ended.setdefault(host, set()).add(task)
            if kind == "runner_on_skipped":
                self._skipped.setdefault(host, set()).add(task)

    def busy(self, host: str) -> bool:
        """Whether a host was in the middle of a task: what that has done is not known."""
        return bool(self._going_on.get(host))

    def unfinished(self, hosts: Sequence[str], playbook: Path, roles: Path, variables: Mapping[str, Any]) -> list[str]:
        """Of these hosts, those that had not finished the playbook. Where that is not known, they had not."""
        above, leaf = last_tasks(playbook, roles, variables)
        return [
            host
            for host in hosts
            if self.busy(host)  # guard: a host in the middle of a task has not come to the end
            or not (leaf in self._ended.get(host, set()) or self._skipped.get(host, set()) & set(above))
        ]


def _read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    return found

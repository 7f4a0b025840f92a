"""Records what each task did on each host, so that a check can be compared with the run that it predicted.

Writes PREDICTED_DIRECTORY/NUMBER-(check|run).json for every run of a playbook called converge.yml:
`{"HOST": {"ROLE | TASK": "ok|changed|skipped|failed"}}`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: predicted
type: notification
short_description: Records what each task did on each host
description: For the comparison of check mode with the run that follows.
requirements: [enabled in the configuration]
options: {}
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "predicted"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[str, dict[str, str]] = {}
        self._wanted = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._wanted = Path(playbook._file_name).name == "converge.yml"

    def _record(self, result: Any, status: str) -> None:
        # Attributes of the result have public names since ansible-core 2.19.
        task, host = result.task, result.host
        if task.action in ("gather_facts", "ansible.builtin.setup") or task._role is None:
            return
        name = f"{task._role.get_name()} | {task.get_name().removeprefix(task._role.get_name() + ' : ')}"
        seen = self._hosts.setdefault(host.get_name(), {})
        if status == "changed" or seen.get(name) != "changed":
            seen[name] = status

    def v2_runner_on_ok(self, result: Any) -> None:
        self._record(result, "changed" if result.result.get("changed") else "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._record(result, "failed")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._record(result, "skipped")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if not self._wanted:
            return
        directory = Path(os.environ["PREDICTED_DIRECTORY"])
        directory.mkdir(parents=True, exist_ok=True)
        number = len(list(directory.iterdir())) + 1
        kind = "check" if context.CLIARGS["check"] else "run"
        text = json.dumps(self._hosts, indent=1, sort_keys=True)
        (directory / f"{number}-{kind}.json").write_text(text + "\n", encoding="utf-8")

"""Calls operations on a host, with the code that it keeps or with code that is sent along."""

from __future__ import annotations

import json
import shlex
import zlib
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import (
    ARRIVE,
    Code,
    belongs_to_takeover,
    code,
    packed,
)
from ansible_collections.gpuadmin.node.plugins.plugin_utils.documents import filled


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Sends digest and document, and the code only to a host that lacks it (docs/decisions/0078)."""

    _python = "/usr/bin/python3"  # until the host has said which one runs operations

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        done: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        name, role = str(self._task.action), self._task._role
        whose = "" if role is None else str(role.get_name()).rpartition(".")[2]
        document = filled(name, whose, self._task.args, variables, self._templar.template)
        done.update(self.call(name, document, variables))
        return done

    def call(self, name: str, document: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Run an operation of this collection on the host, and return what it answers."""
        found = code(belongs_to_takeover(name) or document.get("takeover") is True)
        result = self._ask(name, document, variables, found)
        if (
            result.get("kept") == "absent"
            # guard: check mode brings no code
            and not self._task.check_mode
        ):
            reason = self.send(STATE, found)
            result = {"kept": reason} if reason else self._ask(name, document, variables, found)
        if "kept" not in result:
            return result
        answer = self._ask(name, document, variables, found, carried=packed(found.text))
        if result["kept"] not in {"new", "absent"}:
            answer["remarks"] = [*(answer.get("remarks") or []), f"the node code there is not run: {result['kept']}"]
        return answer

    def _ask(
        self, name: str, document: dict[str, Any], variables: dict[str, Any], found: Code, carried: str | None = None
    ) -> dict[str, Any]:
        given = {
            "operation": name.rpartition(".")[2],
            # packed, because Ansible writes the arguments of such a module twice
            "document": packed(json.dumps(document)),
            "digest": found.digest,
            "library": f"{STATE}/lib",
            **({} if carried is None else {"code": carried}),
        }
        answer: dict[str, Any] = self._execute_module("gpuadmin.node.operation", given, task_vars=variables)
        if "kept" in answer:
            self._python = str(answer.get("python") or self._python)
        return answer

    def send(self, state: str, found: Code) -> str:
        """Install code on the host. Returns why that failed, or an empty text."""
        line = shlex.join((self._python, "-I", "-S", "-c", ARRIVE, found.digest, state))
        answer = self._low_level_execute_command(line, in_data=zlib.compress(found.text.encode(), 1))
        if answer["rc"] == 0:
            return ""
        return str(answer["stderr"].strip().rpartition("\n")[2][:300] or f"exit status {answer['rc']}")

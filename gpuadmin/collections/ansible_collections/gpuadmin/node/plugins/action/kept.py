"""How modules of this collection are called: from the code that a host keeps, or with their code, as Ansible does."""

from __future__ import annotations

import json
import shlex
import zlib
from typing import Any

from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.plugins.action import ActionBase

from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.plugin_utils.kept import ARRIVE, code, packed

_MODULES = "ansible_collections.gpuadmin.node.plugins.modules."


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Sends digest and arguments; the code only to a host that has not got it (docs/decisions/0078)."""

    _supports_async = True
    _python = "/usr/bin/python3"  # until the host has said which one runs its modules

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        done: dict[str, Any] = super().run(tmp, task_vars)
        arguments, variables = dict(self._task.args), task_vars or {}
        done.update(self.call(self._task.resolved_action or self._task.action, arguments, variables))
        return done

    def call(self, name: str, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Run a module of this collection on the host, and return what it answers."""
        if self._task.async_val:  # Ansible's wrapper of such tasks takes a file
            return self._shipped(name, arguments, variables, wrap_async=not self._connection.has_native_async)
        result = self._kept(name, arguments, variables)
        if (
            result.get("kept") == "absent"
            # guard: check mode brings no code
            and not self._task.check_mode
        ):
            reason = self.send(STATE)
            result = {"kept": reason} if reason else self._kept(name, arguments, variables)
        if "kept" not in result:
            return result
        shipped = self._shipped(name, arguments, variables)
        if result["kept"] not in {"new", "absent"}:
            shipped["remarks"] = [*(shipped.get("remarks") or []), f"the node code there is not run: {result['kept']}"]
        return shipped

    def _kept(self, name: str, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        encoder = get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)
        given = {
            "digest": code().digest,
            "library": f"{STATE}/lib",
            "name": _MODULES + name.rpartition(".")[2],
            # Ansible writes the arguments of such a module twice
            "arguments": packed(json.dumps(arguments, cls=encoder)),
        }
        answer: dict[str, Any] = self._execute_module("gpuadmin.node.run_kept", given, task_vars=variables)
        if "kept" in answer:
            self._python = str(answer.get("python") or self._python)
        return answer

    def send(self, state: str) -> str:
        """Send the code to the host, to stay. Returns why it is not kept there; nothing where it is."""
        line = shlex.join((self._python, "-I", "-S", "-c", ARRIVE, code().digest, state))
        answer = self._low_level_execute_command(line, in_data=zlib.compress(code().text.encode(), 1))
        if answer["rc"] == 0:
            return ""
        return str(answer["stderr"].strip().rpartition("\n")[2][:300] or f"exit status {answer['rc']}")

    def _shipped(
        self, name: str, arguments: dict[str, Any], variables: dict[str, Any], *, wrap_async: bool = False
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(name, arguments, task_vars=variables, wrap_async=wrap_async)
        return answer

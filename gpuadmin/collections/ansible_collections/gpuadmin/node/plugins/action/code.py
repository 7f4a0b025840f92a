"""gpuadmin.node.code on the controller: it knows the code, and sends it to hosts that have not got it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpuadmin.node.plugins.plugin_utils.kept import code, packed


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Gives the module the digest, and the code where it is missing."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        done: dict[str, Any] = super().run(tmp, task_vars)
        given = {**self._task.args, "digest": code().digest}
        found = self._execute_module("gpuadmin.node.code", dict(given), task_vars=task_vars)
        if found.get("missing") and not self._task.check_mode:
            given["code"] = packed(code().text)
            found = self._execute_module("gpuadmin.node.code", given, task_vars=task_vars)
        done.update(found)
        return done

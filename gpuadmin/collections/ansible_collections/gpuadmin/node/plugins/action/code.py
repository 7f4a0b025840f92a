"""gpuadmin.node.code on the controller: it knows the code, and sends it to hosts that have not got it."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuadmin.node.plugins.action import operation
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import code


class ActionModule(operation.ActionModule):
    """Gives the operation the digest, and gives the code to a host that has nothing of gpuadmin's yet."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        done: dict[str, Any] = super(operation.ActionModule, self).run(tmp, variables)
        own = code(self._task.args.get("takeover") is True)
        given = {**self._task.args, "digest": own.digest}
        found = self.call("gpuadmin.node.code", dict(given), variables)
        if (
            found.get("missing")
            # guard: a look leaves no code on the host
            and not self._task.check_mode
        ):
            reason = self.send(given.get("state_directory") or STATE, own)
            if reason:
                return {**done, "failed": True, "msg": f"the node code is not kept: {reason}"}
            found = self.call("gpuadmin.node.code", given, variables)
        done.update(found)
        return done

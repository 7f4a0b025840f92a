"""Operations of the node code, as the controller asks for them."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import operation


def ask(name: str, document: dict[str, Any], *, check: bool = False, **more: Any) -> dict[str, Any]:
    """Run one operation in this process, and return what Ansible would read of it."""
    found: dict[str, Any] = json.loads(json.dumps(operation.run(name, document, check=check, **more)))
    return found


def find_operations() -> dict[str, operation.Operation]:
    """Name → operation, of all that ROOMS names; a KeyError where a room has not got one."""
    names = sorted(name for names in operation.ROOMS.values() for name in names)
    return {name: found for name in names if (found := operation.find_operation(name)) is not None}

"""Operations of the node code, as the controller asks for them."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import operation


def ask(name: str, document: dict[str, Any], *, check: bool = False, **more: Any) -> dict[str, Any]:
    """Run one operation in this process, and return what Ansible would read of it."""
    found: dict[str, Any] = json.loads(json.dumps(operation.run(name, document, check=check, **more)))
    return found

"""Operations of the node code, as the controller asks for them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils import operation, operations

from gpuadmin.takeover.node import operations as takeover

PLACES = (operations, takeover)


def ask(name: str, document: dict[str, Any], *, check: bool = False, **more: Any) -> dict[str, Any]:
    """Run one operation in this process, and return what Ansible would read of it."""
    found: dict[str, Any] = json.loads(json.dumps(operation.run(name, document, check=check, **more)))
    return found


def names(place: Any) -> list[str]:
    """The operations that are in one of PLACES."""
    return sorted(path.stem for path in Path(place.__file__).parent.glob("*.py") if path.stem != "__init__")


def modules() -> dict[str, Any]:
    """Name → module of all operations."""
    found = {name: place.__name__ for place in PLACES for name in names(place)}
    return {name: importlib.import_module(f"{found[name]}.{name}") for name in sorted(found)}

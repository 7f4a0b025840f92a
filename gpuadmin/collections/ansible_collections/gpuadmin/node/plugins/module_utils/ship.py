"""Writing this code to a directory, wherever it was loaded from: a job then needs nothing that is installed there."""

from __future__ import annotations

import os
import sys

from .errors import NodeError
from .files import write_atomic

PACKAGE = "gpuadmin_node"


def source_of(module: object) -> str:
    """A module's source, wherever it was loaded from (zip or file). Raises NodeError."""
    spec = getattr(module, "__spec__", None)
    source = spec.loader.get_source(spec.name) if spec is not None and spec.loader is not None else None
    if not source:
        raise NodeError(f"the source of {module!r} cannot be found")
    return str(source)


def ship(module: object, path: str) -> None:
    """Write a module's source to ``path``. It imports no neighbour."""
    source = source_of(module)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomic(path, source.encode(), mode=0o644, sync=False)


def ship_package(directory: str) -> None:
    """Write all of this package that is loaded to ``directory``/gpuadmin_node."""
    package = __name__.rpartition(".")[0]
    target = os.path.join(directory, PACKAGE)
    os.makedirs(target, mode=0o755, exist_ok=True)
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(package + "."):
            continue
        place = os.path.join(target, *name[len(package) + 1 :].split("."))
        if hasattr(module, "__path__"):  # a package; Ansible makes those that a module does not bring along
            os.makedirs(place, mode=0o755, exist_ok=True)
            write_atomic(os.path.join(place, "__init__.py"), b"", mode=0o644, sync=False)
        else:
            ship(module, place + ".py")
    write_atomic(os.path.join(target, "__init__.py"), b"", mode=0o644, sync=False)

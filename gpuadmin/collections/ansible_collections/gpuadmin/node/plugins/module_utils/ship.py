"""Writing this code to a directory, wherever it was loaded from: a job then needs nothing that is installed there."""

from __future__ import annotations

import os
import sys

from .errors import NodeError
from .files import write_atomic

PACKAGES = (__name__.rpartition(".")[0], "gpuadmin.common", "gpuadmin.takeover.node")


def read_module_source(module: object) -> str:
    """A module's source, wherever it was loaded from (zip or file). Raises NodeError."""
    spec = getattr(module, "__spec__", None)
    source = spec.loader.get_source(spec.name) if spec is not None and spec.loader is not None else None
    if not source:
        raise NodeError(f"the source of {module!r} cannot be found")
    return str(source)


def ship(module: object, path: str) -> None:
    """Write a module's source to ``path``. It imports no neighbour."""
    source = read_module_source(module)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomic(path, source.encode(), mode=0o644, sync=False)


def ship_package(directory: str) -> None:
    """Write all of gpuadmin's packages that is loaded below ``directory``, each file by its name."""
    for name, module in sorted(sys.modules.items()):
        inside = any(f"{name}.".startswith(f"{package}.") for package in PACKAGES)
        place = os.path.join(directory, *name.split("."))
        if inside and not hasattr(module, "__path__"):
            ship(module, place + ".py")
        elif inside or any(package.startswith(f"{name}.") for package in PACKAGES):
            os.makedirs(place, mode=0o755, exist_ok=True)
            write_atomic(os.path.join(place, "__init__.py"), b"", mode=0o644, sync=False)

"""Node code that comes with a call: it writes itself to the host, before any of it is a file there.

It runs alone, from the standard input (plugin_utils/code_cache.py): having Python read it as a program would take
longer than the rest of a call. A host that is not to keep it runs it from memory (modules/operation.py). It imports
nothing of gpuadmin's except what it was given.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_OURS = "ansible_collections.gpuadmin.node.plugins.module_utils"


class Arrived:
    """Imports from a mapping of path to source."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """As importlib.abc.MetaPathFinder has it."""
        at = name.replace(".", "/")
        for origin, package in ((f"{at}/__init__.py", True), (f"{at}.py", False)):
            if origin in self.files:
                return ModuleSpec(name, self, origin=origin, is_package=package)  # type: ignore[arg-type]  # it is one
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """As importlib.abc.Loader has it: the usual one."""

    def get_source(self, name: str) -> str:
        """As importlib.abc.InspectLoader has it: what is shipped from here to a job (ship.py)."""
        at = name.replace(".", "/")
        return self.files.get(f"{at}.py", self.files.get(f"{at}/__init__.py", ""))

    def exec_module(self, module: ModuleType) -> None:
        """As importlib.abc.Loader has it."""
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        exec(compile(self.files[module.__spec__.origin], module.__spec__.origin, "exec"), vars(module))


def keep(digest: str, text: str, state: str) -> str | None:
    """Let the code in ``text`` write itself to this host. Returns why it could not; None if it did."""
    arrived = Arrived(json.loads(text))
    sys.meta_path.insert(0, arrived)
    try:
        errors, code_cache = (importlib.import_module(f"{_OURS}.{name}") for name in ("errors", "code_cache"))
        try:
            code_cache.keep(digest, text, state)
        except (errors.NodeError, OSError, ValueError) as error:
            return str(errors.in_words(error))
    finally:
        sys.meta_path.remove(arrived)
        # this run loads its code from the files
        for name, module in list(sys.modules.items()):
            if getattr(getattr(module, "__spec__", None), "loader", None) is arrived:
                del sys.modules[name]
    return None

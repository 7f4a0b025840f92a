"""A wheel and an sdist say which commit they were made from (gpuadmin/commit.txt)."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        commit = runpy.run_path(str(Path(self.root) / "gpuadmin/commit.py"))["read_commit"]()
        made = Path(self.directory) / "commit.txt"
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"{commit}\n", encoding="utf-8")
        build_data["force_include"][str(made)] = "gpuadmin/commit.txt"

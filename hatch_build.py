"""A wheel and an sdist say which commit they were made from (gpuadmin/commit.txt)."""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        commit = runpy.run_path(str(Path(self.root) / "gpuadmin/commit.py"))["read_commit"]()
        self.made = Path(tempfile.mkdtemp()) / "commit.txt"
        self.made.write_text(f"{commit}\n", encoding="utf-8")
        build_data["force_include"][str(self.made)] = "gpuadmin/commit.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self.made.parent)

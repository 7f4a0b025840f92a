"""The helpers beside this file are plain modules; benchmarks/ uses them too."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="cheap ssh hosts need root: sudo .venv/bin/python -m pytest -m scale"
)
needs_mmdebstrap = pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="cheap ssh hosts need mmdebstrap")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.scale)
            item.add_marker(needs_root)
            item.add_marker(needs_mmdebstrap)

"""Loads a script of scripts/ for a test, by its name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> Any:
    """Given the name of a module or package in scripts/, return it with what it needs."""
    place = str(ROOT / "scripts")
    if place not in sys.path:
        sys.path.append(place)
    module = importlib.import_module(name)
    if name == "pages":
        module.pages()  # its parts are imported when they are needed
    return module

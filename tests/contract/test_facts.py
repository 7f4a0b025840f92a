"""Facts that the controller and the nodes both need. Neither imports the other: this holds them together."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from gpuadmin import text
from gpuadmin.config import fields
from gpuadmin.images import facts as images

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / "gpuadmin/collections"
CODE = COLLECTIONS / "ansible_collections/gpuadmin/node/plugins/module_utils"


def node(name: str) -> Any:
    return importlib.import_module(f"ansible_collections.gpuadmin.node.plugins.module_utils.{name}")


def test_names_and_keys_are_the_same_on_nodes() -> None:
    assert fields.USER_NAME.pattern == node("fields").LOGIN
    assert frozenset(node("fields").KEY_TYPES) == fields.KEY_TYPES
    assert node("fields").UNSEEN == text.UNSEEN
    assert node("images.places").NAME.pattern == images.NAME.pattern


@pytest.mark.parametrize("count", [0, 1, 999, 999.94, 999.95, 1000, 1e6 - 1, 1e6, 1.5e9, 3e12, 5e15])
def test_sizes_read_the_same_on_nodes(count: float) -> None:
    assert node("text").size_words(count) == text.size_words(count)


def test_patterns_of_names_and_times_stand_once_on_nodes() -> None:
    """A login name, a time in a name: others are made of them."""
    text = {path: path.read_text() for path in CODE.rglob("*.py")}
    for pattern in (r"a-z0-9_-\]\{0,31\}", r"\[0-9\]\{+8\}+T", r"FIRST_HUMAN_UID = ", r"homes\.lock"):
        assert len([path for path, code in text.items() if re.search(pattern, code)]) == 1, pattern

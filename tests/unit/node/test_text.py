"""Numbers in words: the controller and the nodes have one way each, and it is the same."""

from __future__ import annotations

from types import ModuleType

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import text as node

from gpuadmin import text as controller


@pytest.mark.parametrize("words", [controller, node])
def test_what_is_counted(words: ModuleType) -> None:
    assert [words.counted(number, "home") for number in (0, 1, 2)] == ["0 homes", "1 home", "2 homes"]
    assert [words.counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]


@pytest.mark.parametrize("words", [controller, node])
def test_sizes(words: ModuleType) -> None:
    assert [words.size_words(size) for size in (1, 999, 1000, 10**12)] == ["1 byte", "999 bytes", "1.0 kB", "1.0 TB"]

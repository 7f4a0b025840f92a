"""What the store loses and keeps."""

from typing import Any

import pytest

from gpuadmin.images.facts import Facts
from gpuadmin.images.prune import prune_store
from tests.support.image_facts import entry, node


@pytest.mark.parametrize(
    ("store", "nodes", "keep", "expected"),
    [
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, full=True)}, {}, 1, ["a"]),
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, "a")}, {}, 1, []),
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, "a", full=True)}, {}, 1, ["a"]),
        ({"a": entry("a", 1, full=True), "b": entry("b", 2, full=True)}, {"n": node(image="a")}, 1, []),
        (
            {"a": entry("a", 1, full=True), "b": entry("b", 2, full=True)},
            {"n": node(image="b", current="b", confirmed=["b", "a+2"])},
            1,
            [],
        ),
        ({"a": entry("a", 1), "b": entry("b", 2, "a"), "c": entry("c", 3, "b")}, {}, 1, []),
        ({"a": entry("a", 1), "b": entry("b", 2), "c": entry("c", 3)}, {}, 2, ["a"]),
    ],
)
def test_what_the_store_loses(store: dict[str, Any], nodes: dict[str, Any], keep: int, expected: list[str]) -> None:
    assert prune_store(Facts(store, nodes), keep) == expected
    assert prune_store(Facts(store, nodes, {"n9": "does not answer"}), keep) == []


@pytest.mark.parametrize(
    "only",
    [{"image": "a"}, {"current": "a"}, {"trial": "a+2"}, {"confirmed": ["b", "a"]}],
    ids=["runs", "boots", "is to try", "can go back to"],
)
def test_the_store_keeps_what_one_node_needs_for_one_reason(only: dict[str, Any]) -> None:
    """Each reason by itself: a node that needs the oldest image for nothing else."""
    store = {name: entry(name, number, full=True) for number, name in enumerate("abc")}
    rest = {"running": "b", "image": "b", "current": "b", "trial": "", "confirmed": ["b"]}
    assert prune_store(Facts(store, {"n": node(**rest)}), 1) == ["a"]
    assert prune_store(Facts(store, {"n": node(**{**rest, **only})}), 1) == []

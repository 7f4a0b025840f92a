"""What a node loses and keeps."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.images import prune

NEEDS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "nothing of the oldest": ({}, ["a"], ["a"]),
    "runs": ({"running": "a"}, ["b"], []),
    "boots": ({"current": "a"}, [], []),
    "is to try": ({"trial": "a"}, [], []),
    "confirmed before": ({"confirmed": ["c", "a"]}, ["b"], []),
    "the parent of the newest": ({"newest": ["c", "b", "a"], "parent": "a"}, ["a"], []),
    "the image of a root of another name": ({"trial": "t", "image_of": {"t": "a"}}, ["a"], []),
}


@pytest.mark.parametrize(("needs", "roots", "images"), NEEDS.values(), ids=NEEDS.keys())
def test_a_node_keeps_what_it_needs_for_one_reason(needs: dict[str, Any], roots: list[str], images: list[str]) -> None:
    """`c` runs and boots, `b` was confirmed before; the two newest images stay, and the oldest for one reason alone."""
    needs = dict(needs)
    parents = {"a": None, "b": None, "c": needs.pop("parent", None)}
    given = {
        "running": "c", "current": "c", "trial": "", "confirmed": ["c", "b"], "image_of": {}, "newest": ["c", "b", "a"],
        "keep": 2, **needs,
    }  # fmt: skip
    assert prune.decide(["a", "b", "c"], parents, **given) == (roots, images)


@pytest.mark.parametrize(
    ("roots", "images", "keyword", "expected"),
    [
        (["a"], {"a": None}, {}, ([], [])),
        (
            ["a", "b", "c"],
            {"a": None, "b": "a", "c": "b"},
            {"running": "c", "current": "c", "confirmed": ["c", "b", "a"]},
            (["a"], ["a"]),
        ),
        (["a", "b"], {"a": None, "b": "a"}, {"running": "a", "current": "b", "confirmed": ["b", "a"]}, ([], [])),
        (
            ["a", "b", "b+2"],
            {"a": None, "b": "a"},
            {"running": "b+2", "current": "b+2", "confirmed": ["b+2", "a"], "image_of": {"b+2": "b"}},
            (["b"], []),
        ),
        (["a", "b"], {"a": None, "b": "a", "c": "a"}, {"newest": ["c", "b", "a"], "keep": 1}, (["b"], ["b"])),
        (["a", "t"], {"a": None}, {"trial": "t"}, ([], [])),
    ],
)
def test_what_a_node_loses(
    roots: list[str], images: dict[str, str | None], keyword: dict[str, Any], expected: tuple[list[str], list[str]]
) -> None:
    given: dict[str, Any] = {
        "running": "a",
        "current": "a",
        "trial": "",
        "confirmed": ["a"],
        "image_of": {},
        "newest": sorted(images, reverse=True),
        **keyword,
    }
    assert prune.decide(roots, images, **given) == expected

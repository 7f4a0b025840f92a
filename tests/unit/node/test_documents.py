"""What the controller hands to an operation is parsed by one dataclass, and what is wrong has a path."""

# as in an operation's file: fields' types are texts there
from __future__ import annotations

import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Optional

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import documents, operation
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import entries, parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from hypothesis import given, strategies

from tests.support.operations import find_operations

OPERATIONS = find_operations()


@dataclass(frozen=True)
class Inner:
    name: str
    size: int = 1


@dataclass(frozen=True)
class Outer:
    """All kinds of fields."""

    path: str
    mode: Literal["one", "two"] = "one"
    number: Optional[int] = None
    share: float = 0.5
    wanted: bool = True
    names: Sequence[str] = ()
    inner: Sequence[Inner] = ()
    one: Optional[Inner] = None
    by_name: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None


def test_a_document_becomes_what_it_says() -> None:
    found = parse(
        Outer,
        {"path": "/x", "mode": "two", "number": "7", "share": 1, "wanted": False, "names": ["a"],
         "inner": [{"name": "b"}], "one": {"name": "c"},
         "by_name": {"d": 4}, "anything": [None]},
        "it",
        templated=True,
    )  # fmt: skip
    assert found == Outer("/x", "two", 7, 1, False, ["a"], [Inner("b")], Inner("c"), {"d": 4}, [None])
    assert parse(Outer, {"path": "/x", "number": None, "mode": None}, "it", templated=True) == Outer("/x")


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ([], "it is '[]', not a mapping"),
        ({}, "it.path is missing"),
        ({"path": None}, "it.path is missing"),
        ({"path": "/x", "pth": 1}, "it has 'pth', which is not one of path, mode"),
        ({"path": 1}, "it.path is 1, not text"),
        ({"path": "/x", "mode": "three"}, "it.mode is 'three', not one of one, two"),
        ({"path": "/x", "number": "seven"}, "it.number is 'seven', not a whole number"),
        ({"path": "/x", "number": True}, "it.number is True, not a whole number"),
        ({"path": "/x", "number": 1.5}, "it.number is 1.5, not a whole number"),
        ({"path": "/x", "share": "1"}, "it.share is '1', not a number"),
        ({"path": "/x", "wanted": 1}, "it.wanted is 1, not true or false"),
        ({"path": "/x", "wanted": "no"}, "it.wanted is 'no', not true or false"),
        ({"path": "/x", "names": "a"}, "it.names is 'a', not a list"),
        ({"path": "/x", "names": ["a", 2]}, r"it.names\[1\] is 2, not text"),
        ({"path": "/x", "inner": [{"name": "a"}, {"size": 1}]}, r"it.inner\[1\].name is missing"),
        ({"path": "/x", "one": "a"}, "it.one is 'a', not a mapping"),
        ({"path": "/x", "by_name": "a"}, "it.by_name is 'a', not a mapping"),
        ({"path": "/x", "by_name": {"d": "x"}}, "it.by_name.d is 'x', not a whole number"),
    ],
)
def test_what_is_wrong_is_named(given_: object, words: str) -> None:
    with pytest.raises(NodeError, match=words.replace("'[]'", r"\[\]")):
        parse(Outer, given_, "it", templated=True)


ODD = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(max_size=9),
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text(), inner, max_size=3),
    max_leaves=6,
)


@given(document=strategies.dictionaries(strategies.sampled_from(sorted(Outer.__dataclass_fields__)), ODD))
def test_whatever_comes_is_parsed_or_refused(document: dict[str, Any]) -> None:
    try:
        found = parse(Outer, document, "it")
    except NodeError:
        return
    assert isinstance(found.path, str)
    assert all(isinstance(one, Inner) for one in found.inner)


def find_kinds(kind: Any) -> Iterator[type]:
    """Given a type, return the records in it."""
    if is_dataclass(kind):
        yield kind  # type: ignore[misc]  # a class, not one of its values
        for one, _ in documents.find_fields(kind).values():
            yield from find_kinds(one)
    for one in typing.get_args(kind):
        yield from find_kinds(one)


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_says_what_it_takes(name: str) -> None:
    """Each type can be told, and a document that is odd is a sentence and no traceback."""
    found = OPERATIONS[name].document
    assert found.__doc__
    # Python 3.9 cannot evaluate the types of fields otherwise
    assert [(kind, one.name) for kind in find_kinds(found) for one in fields(kind) if " | " in str(one.type)] == []
    answer = operation.run(name, {"no such field": 1}, check=True)
    assert answer["failed"]
    assert str(answer["msg"]).startswith(f"{name} has 'no such field', which is not one of")


@pytest.mark.parametrize("name", ["../x", "", "os", "Accounts", "accounts\n", 'x"', "__init__"])
def test_what_is_no_operation_is_not_imported(name: str) -> None:
    before = set(sys.modules)
    assert str(operation.run(name, {}, check=True)["msg"]).endswith("is not an operation")
    assert {one for one in set(sys.modules) - before if "operations" in one} == set()


def test_a_list_of_people_may_be_text() -> None:
    assert entries("users", '[{"name": "minji"}]') == [{"name": "minji"}] == entries("users", [{"name": "minji"}])
    for odd in ("no JSON", '{"name": "minji"}', "[1]", 5, None):
        with pytest.raises(NodeError, match=r"^users is no"):
            entries("users", odd)

"""A record is parsed on hosts by node code and on the controller by pydantic's core, with the same verdict."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import find_fields, parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuadmin.ansible.reports import shape
from gpuadmin.common import records
from gpuadmin.common.records.bounds import Count, Line, Seconds, Size, Stamp, Uid, Uids, When, Within


@dataclasses.dataclass(frozen=True)
class Inner:
    name: Line
    left: bool = False


@dataclasses.dataclass(frozen=True)
class Whole:
    """A field of each kind that records have."""

    name: Annotated[str, Size(32, 1)]
    uid: Uid
    main: bool
    size: Count
    took: Seconds
    since: When
    created: Stamp
    owners: Uids
    state: Literal["waits", "refused"]
    index: Union[int, str]
    few: Annotated[list[Annotated[int, Within(-5, 5)]], Size(2)]
    places: dict[Line, Inner]
    one: Optional[Inner]
    before: Optional[list[str]] = None
    step: str = "begun"


GOOD: dict[str, Any] = {
    "name": "minji", "uid": 20001, "main": True, "size": 1, "took": 0.5, "since": 1.8e9, "index": 0, "few": [-5, 4],
    "created": "2026-12-21T01:02:03Z", "owners": {"20001": "minji"}, "state": "waits", "one": None, "before": ["x"],
    "places": {"/home": {"name": "x"}}, "step": "begun",
}  # fmt: skip
ODD: tuple[Any, ...] = (
    None, -1, 0, 5, 2**31, 2**32, 2**70, 2**100, 1.5, 1e12, float("nan"), float("inf"), True, "", "1", "waits",
    "a" * 99, "a" * 500, "a\nb", "9999-12-31T23:59:59Z", [], [1], ["b"], [1, 2, 3], ["1"], [None], [True], {},
    {"x": "y"}, {"1": "y"}, {"1": 1}, {"x": {"name": "y"}}, {"x": {"left": True}}, {"x" * 401: {"name": "y"}},
    {"name": "x"}, {"name": "x", "left": 1}, {"name": 1}, [[[[[]]]]],
)  # fmt: skip
_CONTROLLER: TypeAdapter[Any] = TypeAdapter(
    types.GenericAlias(dict, (str, shape(Whole))), config=ConfigDict(strict=True)
)


def fits_host(found: dict[str, Any]) -> bool:
    try:
        return parse(Whole, found, "it") is not None
    except NodeError:
        return False


def fits_controller(found: dict[str, Any]) -> bool:
    try:
        return bool(_CONTROLLER.validate_python({"it": found}))
    except ValidationError:
        return False


@pytest.mark.holds("a field of a record is within its bounds")
@pytest.mark.parametrize("field", GOOD)
def test_both_sides_judge_alike(field: str) -> None:
    assert fits_host(GOOD)
    assert fits_controller(GOOD)
    differ = [odd for odd in ODD if fits_host({**GOOD, field: odd}) != fits_controller({**GOOD, field: odd})]
    assert differ == []
    assert any(not fits_host({**GOOD, field: odd}) for odd in ODD)
    left = {name: value for name, value in GOOD.items() if name != field}
    assert fits_host(left) == fits_controller(left) == (field in ("before", "step"))


def find_records() -> Iterator[type]:
    for module in pkgutil.iter_modules(records.__path__, f"{records.__name__}."):
        for one in vars(importlib.import_module(module.name)).values():
            if dataclasses.is_dataclass(one) and isinstance(one, type):
                yield one


def test_each_record_is_parsed_on_both_sides() -> None:
    """Python 3.9 evaluates the types of its fields, and pydantic takes them."""
    found = set(find_records())
    assert len(found) > 20
    for one in found:
        assert not [field.name for field in dataclasses.fields(one) if " | " in str(field.type)], one
        assert find_fields(one).keys() == typing.get_type_hints(one).keys()
        assert TypeAdapter(shape(one)) is not None

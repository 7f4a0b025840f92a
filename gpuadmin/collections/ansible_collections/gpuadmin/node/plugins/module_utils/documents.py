"""Documents, parsed into records: what the controller wants, what a unit is to do, what is in a file of this host.

A record's class says it all: names, types, bounds, which fields are needed, and what the others are without them.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from .errors import NodeError
from .fields import quoted, whole_number

T = TypeVar("T")
_WORDS = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}


def parse(kind: type[T], given: object, at: str, *, templated: bool = False) -> T:
    """Given a record's class and a document, return the record. Raises NodeError, which names the path of the fault.

    ``templated``: a template of Ansible's wrote it, so a number may be text, and null means left out. An unknown field
    is refused, because somebody meant something by it.
    """
    if not isinstance(given, Mapping):
        raise NodeError(f"{at} is {quoted(given)}, not a mapping")
    known = find_fields(kind)  # type: ignore[arg-type]  # a class is hashable
    odd = [name for name in given if name not in known]
    if odd:
        raise NodeError(f"{at} has {quoted(odd[0])}, which is not one of {', '.join(known)}")
    values = {}
    for name, (wanted, needed) in known.items():
        if name in given and not (templated and given[name] is None):
            values[name] = _parse_value(wanted, given[name], f"{at}.{name}", templated)
        elif needed:
            raise NodeError(f"{at}.{name} is missing")
    return kind(**values)


def parse_settings(kind: type[T], found: object, at: str) -> T:
    """Given what a role wrote to a file, return the record. A key that this release does not know is left out.

    A host may have new code beside an old file, or old code beside a new one; a timer and a boot go on with it.
    """
    if isinstance(found, Mapping):
        known = find_fields(kind)  # type: ignore[arg-type]  # a class is hashable
        found = {name: found[name] for name in known if name in found}
    return parse(kind, found, at, templated=True)


@cache
def find_fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a record's class: name → its type, whether it has no default."""
    types = typing.get_type_hints(kind, include_extras=True)
    needed = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(kind)}
    return {name: (types[name], needed[name]) for name in needed}


def _parse_value(kind: Any, value: object, at: str, templated: bool) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return parse(kind, value, at, templated=templated)  # type: ignore[arg-type]  # it is a class
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        found = _parse_value(inner[0], value, at, templated)
        for bound in inner[1:]:
            problem = bound.find_problem(found)
            if problem is not None:  # guard: a field of a record is within its bounds
                raise NodeError(f"{at} is {quoted(value)}: {problem}")
        return found
    if origin is typing.Union:
        kinds = [one for one in inner if one is not type(None)]
        if value is None and len(kinds) < len(inner):
            return None
        for one in kinds[:-1]:
            with suppress(NodeError):
                return _parse_value(one, value, at, templated)
        return _parse_value(kinds[-1], value, at, templated)
    if origin is Literal:
        if value not in inner:
            raise NodeError(f"{at} is {quoted(value)}, not one of {', '.join(map(str, inner))}")
        return value
    if origin in (Sequence, list):
        if not isinstance(value, (list, tuple)):
            raise NodeError(f"{at} is {quoted(value)}, not a list")
        return [_parse_value(inner[0], one, f"{at}[{number}]", templated) for number, one in enumerate(value)]
    if origin in (Mapping, dict):
        if not isinstance(value, Mapping):
            raise NodeError(f"{at} is {quoted(value)}, not a mapping")
        return {
            _parse_value(inner[0], str(name), at, templated): _parse_value(inner[1], one, f"{at}.{name}", templated)
            for name, one in value.items()
        }
    found = whole_number(value) if kind is int and templated else value
    good = isinstance(found, (int, float) if kind is float else kind) and (kind is bool or not isinstance(found, bool))
    if not good:
        raise NodeError(f"{at} is {quoted(value)}, not {_WORDS[kind]}")
    return found


def to_plain(value: object) -> Any:
    """Given a value that has records in it, return it as JSON has it."""
    return json.loads(json.dumps(value, default=vars))


def entries(option: str, given: object) -> list[dict[str, object]]:
    """Given a list of mappings, or that as JSON, return it, unchecked: each entry is checked by itself.

    One text, because Ansible walks a structure several times for each host (docs/decisions/0075). Raises NodeError.
    """
    found = given
    if isinstance(given, str):
        try:
            found = json.loads(given)
        except ValueError as error:
            raise NodeError(f"{option} is not JSON: {error}") from None
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, dict) for one in found):
        raise NodeError(f"{option} is not a list of mappings")
    return list(found)

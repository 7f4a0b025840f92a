"""Documents: what the controller wants of an operation, parsed once into dataclasses. It is hostile until then.

An operation's dataclass says it all: names, types, which fields are needed, and what the others are without it.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar

from .errors import NodeError
from .fields import quoted, whole_number

T = TypeVar("T")
_OPTIONAL = " | None"
_WORDS = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class PersonEntry:
    """One person, as `people.parse` takes them: it refuses two who share a name or an id."""

    name: str
    uid: int
    subid_start: int = 0
    subid_count: int = 0


@dataclass(frozen=True)
class BackupHost:
    """The host of the second copies."""

    #: Its name in the inventory.
    host: str
    #: Its address on the cluster's own network.
    address: str
    #: The private key on this host, and the file that holds the other host's key.
    key: str
    known_hosts: str
    port: int = 22
    #: The address that this host calls from.
    source: str | None = None


@dataclass(frozen=True)
class ChainLink:
    """A node's place in a chain of relays: addresses, empty at its ends."""

    port: int | None = None
    previous: str | None = None
    next: str | None = None


def parse(kind: type[T], given: object, at: str) -> T:
    """Given a dataclass and a document, return the dataclass. Raises NodeError, which names the path of what is wrong.

    A null field counts as left out. An unknown field is refused, because somebody meant something by it.
    """
    if not isinstance(given, Mapping):
        raise NodeError(f"{at} is {quoted(given)}, not a mapping")
    known = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    odd = [name for name in given if name not in known]
    if odd:
        raise NodeError(f"{at} has {quoted(odd[0])}, which is not one of {', '.join(known)}")
    values = {}
    for name, (wanted, needed) in known.items():
        value = given.get(name)
        if value is not None:
            values[name] = _value(wanted, value, f"{at}.{name}")
        elif needed:
            raise NodeError(f"{at}.{name} is missing")
    return kind(**values)


@lru_cache(maxsize=None)
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Name → its type, whether it has no default. Python 3.9 cannot evaluate `X | None`."""
    names = vars(sys.modules[kind.__module__])
    found = {}
    for field in fields(kind):
        text = str(field.type)
        kind_of = eval(text[: -len(_OPTIONAL)] if text.endswith(_OPTIONAL) else text, dict(names))
        needed = field.default is MISSING and field.default_factory is MISSING
        found[field.name] = (kind_of, needed)
    return found


def _value(kind: Any, value: object, at: str) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return parse(kind, value, at)  # type: ignore[arg-type]  # it is a class
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        if value not in inner:
            raise NodeError(f"{at} is {quoted(value)}, not one of {', '.join(map(str, inner))}")
        return value
    if origin is Sequence:
        if not isinstance(value, (list, tuple)):
            raise NodeError(f"{at} is {quoted(value)}, not a list")
        return [_value(inner[0], one, f"{at}[{number}]") for number, one in enumerate(value)]
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise NodeError(f"{at} is {quoted(value)}, not a mapping")
        return {str(name): _value(inner[1], one, f"{at}.{name}") for name, one in value.items()}
    # a template may have turned a number into text
    found = whole_number(value) if kind is int else value
    good = isinstance(found, (int, float) if kind is float else kind) and (kind is bool or not isinstance(found, bool))
    if not good:
        raise NodeError(f"{at} is {quoted(value)}, not {_WORDS[kind]}")
    return found


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
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NodeError(f"{option} is not a list of mappings")
    return found

"""What hosts report, parsed by its records: nothing else in gpuadmin sees an answer before this does.

A report has the fields of its record (gpuadmin/common/records/), each of its kind and within bounds. Others stay
as they are, within the bounds of `too_much`. A report whose name is not here is dropped.
"""

from __future__ import annotations

import builtins
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.common.records import (
    adoption,
    audits,
    diagnosis,
    gpus,
    hosts,
    images,
    installs,
    moving,
    people,
    queue,
    renumbering,
    root_docker,
    wipes,
)
from gpuadmin.common.records.bounds import MOST, Words
from gpuadmin.common.text import counted

DEEPEST = 40
MOST_VALUES = 2_000_000

People = dict[str, people.ItemReport]
#: Name → its record's class.
REPORTS: Mapping[str, Any] = {
    "users": People,
    "homes": People,
    "scratch": People,
    "login_access": People,
    "sessions": People,
    "problems": list[str],
    "begun": bool,
    "refused": Words,
    "uids": people.KnownUids,
    "carried": people.CarriedUids,
    "backup": people.Backup,
    "deleted": dict[str, people.Purged],
    "facts": people.TermFacts,
    "store": dict[str, images.Stored],
    "verified": dict[str, list[str]],
    "node": images.NodeImages,
    "switch": images.Spent,
    "layout": dict[str, Any],
    "machine": installs.Machine,
    "made": installs.Made,
    "power": hosts.Power,
    "former_homes": hosts.FormerHomes,
    "bmcs": dict[str, hosts.Supply],
    "gpus": gpus.Gpus,
    "grants": gpus.Grants,
    "queue": queue.Queue,
    "mig": gpus.Mig,
    "diagnosis": diagnosis.Diagnosis,
    "docker_restart": str,
    "measured": hosts.Measured,
    "idle": gpus.Idle,
    "restored": dict[str, Any],
    "restored_homes": dict[str, str],
    "status": hosts.Status,
    "updates": hosts.Updates,
    "command": hosts.Command,
    "cleared": dict[str, wipes.Cleared],
    "disk": hosts.Disks,
    "pruned": list[str],
    "privileges": audits.Privileges,
    "settings": audits.HostSettings,
    "hardware": audits.Hardware,
    "exposed": audits.Exposed,
    "adoption": adoption.Adoption,
    "renumber": renumbering.Renumbering,
    "moving": moving.Moving,
    "moved": moving.Moved,
    "move_key": moving.PublicKey,
    "root_docker": root_docker.RootDocker,
    "docker_moved": root_docker.Carried,
}
_KEPT = ConfigDict(
    extra="allow",
    strict=True,  # guard: a number in a text is not a number: it would have no bound
)


def shape(kind: Any) -> Any:
    """Given a record's class, return the TypedDict of its fields: what readers get of an answer stays a mapping.

    So what a record does not have (a host of another release says it) stays as it is, and a field that has a default
    may be left out.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints, needed = get_type_hints(kind, include_extras=True), {}
        for one in fields(kind):
            field = shape(hints[one.name])
            optional = one.default is not MISSING or one.default_factory is not MISSING
            needed[one.name] = NotRequired[field] if optional else field
        return TypedDict(kind.__name__, needed)  # type: ignore[operator]  # mypy knows no TypedDict that is made
    parts = get_args(kind)
    match get_origin(kind):
        case typing.Annotated:
            return typing.Annotated[(shape(parts[0]), *parts[1:])]
        case typing.Union:
            return typing.Union[tuple(shape(one) for one in parts)]  # noqa: UP007  of so many types
        case builtins.list | builtins.dict as origin:
            return types.GenericAlias(origin, tuple(shape(one) for one in parts))
    return kind


_PEOPLE: TypeAdapter[Any] = TypeAdapter(
    shape(People),
    config=ConfigDict(
        extra="ignore",
        strict=True,  # guard: a number in a text is not a number of a person's either
    ),
)


@cache
def _adapter(name: str) -> TypeAdapter[dict[str, Any]]:
    kind: Any = types.GenericAlias(dict, (str, shape(REPORTS[name])))
    return TypeAdapter(kind, config=_KEPT)


class OddError(ValueError):
    """An answer that is not understood; the message says which part, without `its answer is not understood`."""


def parsed(name: str, value: object) -> Any:
    """Given a report's name and what a host says, return it as its readers may take it. Raises OddError."""
    try:
        if REPORTS[name] is People:
            return _PEOPLE.validate_python(value)
        too_much(value, name)  # guard: a report has an end
        return _adapter(name).validate_python({name: value})[name]
    except ValidationError as error:
        raise _in_words(name, error) from None


def of_text(name: str, text: object) -> Any:
    """The same for a report that comes as JSON in a text."""
    if not isinstance(text, str):  # guard: a report in a text is a text
        raise OddError(f"{name} is not text")
    try:
        if REPORTS[name] is People:
            return _PEOPLE.validate_json(text)  # avoids thousands of objects on the way, and a tree to walk
        return parsed(name, json.loads(text, parse_constant=float))
    except ValidationError as error:
        raise _in_words(name, error) from None
    except RecursionError:
        raise OddError(f"{name} is nested too deep") from None
    except OddError:
        raise
    except ValueError:
        raise OddError(f"{name} is not JSON") from None


def _in_words(name: str, error: ValidationError) -> OddError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return OddError(f"{name} is not JSON")
    path = first["loc"] if first["loc"][:1] == (name,) else (name, *first["loc"])
    words = ".".join(str(part)[:60] for part in path)
    return OddError(f"{words[:300]}: {first['msg'][:1].lower()}{first['msg'][1:200]}")


def too_much(value: object, name: str) -> None:
    """Raise OddError if a value is too deep or too large, or has a number that nobody can calculate with."""
    level: list[Any] = [value]
    values = 0
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is dict:
                below.extend(one.values())
            elif kind is list:
                below.extend(one)
            elif (kind is float and not math.isfinite(one)) or (kind is int and not -MOST < one < MOST):
                raise OddError(f"{name} has a number that is not finite, or too large")
        values += len(below)
        if values > MOST_VALUES:
            raise OddError(f"{name} has more than {counted(MOST_VALUES, 'value')}")
        if not below:
            return
        level = below
    raise OddError(f"{name} is nested too deep")

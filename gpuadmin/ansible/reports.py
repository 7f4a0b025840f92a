"""What hosts report, parsed: the one schema at the border. Nothing else in gpuadmin sees an answer before this does.

A report has the fields that its readers need, each of its kind and within bounds. Fields that nobody reads stay as
they are, within the bounds of `too_much`. A report whose name is not here is dropped.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuadmin.ansible.shapes import adoption, images, looks, people, root_docker
from gpuadmin.ansible.shapes.bounds import MOST, Words
from gpuadmin.common.text import counted

DEEPEST = 40
MOST_VALUES = 2_000_000

#: Name → shape.
REPORTS: Mapping[str, Any] = {
    "users": people.People,
    "homes": people.People,
    "scratch": people.People,
    "login_access": people.People,
    "sessions": people.People,
    "problems": list[str],
    "begun": bool,
    "refused": Words,
    "uids": people.Taken,
    "carried": people.Carried,
    "backup": people.Backup,
    "deleted": dict[str, people.Deleted],
    "facts": people.Term,
    "store": dict[str, images.Stored],
    "verified": dict[str, list[str]],
    "node": images.NodeImages,
    "switch": images.Spent,
    "layout": dict[str, Any],
    "power": looks.Power,
    "gpus": looks.Gpus,
    "grants": looks.Grants,
    "queue": looks.Queue,
    "mig": looks.Mig,
    "diagnosis": looks.Diagnosis,
    "docker_restart": str,
    "measured": looks.Measured,
    "idle": looks.Idle,
    "restored": dict[str, Any],
    "status": looks.Status,
    "command": looks.Command,
    "cleared": dict[str, Any],
    "disk": looks.Disks,
    "pruned": list[str],
    "privileges": looks.Privileges,
    "settings": looks.HostSettings,
    "hardware": looks.Hardware,
    "exposed": looks.Exposed,
    "adoption": adoption.Adoption,
    "renumber": people.Renumbering,
    "moving": people.Moving,
    "moved": people.Moved,
    "move_key": people.PublicKey,
    "root_docker": root_docker.RootDocker,
    "docker_moved": root_docker.Carried,
}
_KEPT = ConfigDict(
    extra="allow",
    strict=True,  # guard: a number in a text is not a number: it would have no bound
)
_PEOPLE = TypeAdapter(
    people.People,
    config=ConfigDict(
        extra="ignore",
        strict=True,  # guard: a number in a text is not a number of a person's either
    ),
)


@cache
def _adapter(name: str) -> TypeAdapter[dict[str, Any]]:
    kind: Any = types.GenericAlias(dict, (str, REPORTS[name]))
    return TypeAdapter(kind, config=_KEPT)


class OddError(ValueError):
    """An answer that is not understood; the message says which part, without `its answer is not understood`."""


def parsed(name: str, value: object) -> Any:
    """Given a report's name and what a host says, return it as its readers may take it. Raises OddError."""
    try:
        if REPORTS[name] is people.People:
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
        if REPORTS[name] is people.People:
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

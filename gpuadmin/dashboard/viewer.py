"""Who looks at the pages, what they may see, and what the site says of itself: one JSON file that the role writes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from .files import DashboardError, in_words

_LARGEST = 4 * 1024 * 1024  # bytes
_KINDS: Mapping[str, type] = {"tuple": list, "str": str, "int": int}


@dataclass(frozen=True)
class Viewer:
    """A person who was let in."""

    name: str
    admin: bool
    #: By which forms of their pages know them; nobody else has it.
    session: str = field(default="", compare=False, repr=False)

    def may_see_private(self, user: str) -> bool:
        """Whether this person may learn what is nobody else's business: disk and hints."""
        return self.admin or user == self.name  # guard: disk and hints are private -> True


@dataclass(frozen=True)
class Settings:
    """What the role writes; of people nothing, who come and go without a provision of this host. `announcements`: the
    file of this host that has them; `status_file`: where the page without a login is written every minute, if anywhere.
    `admins`: accounts with power over the hosts, which are no person's. `buttons`: what people may ask of the queue,
    whose host is `queue_host`. `term`: name, first and last day. `price`: of a kWh.
    `notebooks`: the port at which nginx leads to people's notebooks; 0: there are none.
    `rules`: the guide's sections as HTML, for each of the languages.
    """

    cluster: str
    nodes: tuple[str, ...]
    languages: tuple[str, ...] = ("en", "ko")
    announcements: str = ""
    idle_hours: int = 2
    idle_exempt: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    status_file: str = ""
    buttons: tuple[str, ...] = ()
    queue_host: str = ""
    rules: tuple[str, ...] = ()
    term: tuple[str, ...] = ()
    price: str = ""
    currency: str = ""
    notebooks: int = 0


def parse_viewer_settings(document: object) -> Settings:
    """Given the file's JSON, return the settings; others' keys are left out. Raises DashboardError."""
    if not isinstance(document, dict):
        raise DashboardError("the dashboard's settings must be an object")
    values: dict[str, Any] = {}
    for one in fields(Settings):
        if one.name not in document:
            continue
        value: Any = document[one.name]
        kind = str(one.type).partition("[")[0]
        if not isinstance(value, _KINDS[kind]) or isinstance(value, bool):
            raise DashboardError(f"the dashboard's settings: {one.name} is no {_KINDS[kind].__name__}")
        if kind == "tuple":
            values[one.name] = _parse_texts(one.name, document[one.name])
        else:
            values[one.name] = value
    for name in ("cluster", "nodes"):
        if name not in values:
            raise DashboardError(f"the dashboard's settings: {name} is missing")
    if not values.get("languages", ("en",)) or set(values.get("languages", ())) - {"en", "ko"}:
        raise DashboardError("the dashboard's settings: languages must be some of en, ko")
    return Settings(**values)


def _parse_texts(name: str, value: Sequence[Any]) -> tuple[str, ...]:
    if not all(isinstance(part, str) for part in value):
        raise DashboardError(f"the dashboard's settings: {name} must be a list of texts")
    return tuple(value)


def load_settings(path: str) -> Settings:
    """Read the file. Raises DashboardError if it cannot be read or is not what the role writes."""
    try:
        with open(path, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise DashboardError(f"{path} is not a regular file")
            return parse_viewer_settings(json.loads(stream.read(_LARGEST)))
    except (OSError, ValueError) as error:
        raise DashboardError(f"{path}: {in_words(error)}") from None

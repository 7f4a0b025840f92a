"""Who looks at the dashboard, and the one file of settings that the role ``dashboard`` writes for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..errors import NodeError
from ..files import read_bytes

Sees = Literal["all", "own"]


@dataclass(frozen=True)
class Viewer:
    """Somebody who came in. ``sees``: all, or what is their own and of everything else only whether it is free."""

    name: str
    admin: bool
    sees: Sees


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that has asked people for their password, and says by a header who they are."""

    header: str  # in lower case
    addresses: tuple[str, ...]  # where it connects from
    admins: tuple[str, ...] = ()  # the names that are admins


@dataclass(frozen=True)
class Settings:
    """What a site says of its dashboard. ``hosts``: the names under which it is asked; others are refused."""

    cluster: str
    nodes: tuple[str, ...]  # in the inventory's order, as the label `instance` has them
    sees: Sees = "all"
    idle_hours: int = 2
    idle_exempt: tuple[str, ...] = ()
    announcements: str = ""  # a file as logins/announcements.py writes it; may be absent
    prometheus: int = 9090  # its port on 127.0.0.1
    port: int = 9443
    listen: str = "127.0.0.1"  # an address; "" is every one
    hosts: tuple[str, ...] = ()
    link_minutes: int = 10
    session_hours: int = 12
    proxy: Proxy | None = None


def load(path: str) -> Settings:
    """Given the path of the settings' file (JSON), return them. Raises NodeError for what is not as it must be."""
    raw = read_bytes(path)
    if raw is None:
        raise NodeError(f"{path} is missing: gpuadmin provision writes it")
    try:
        return parse(json.loads(raw))
    except (ValueError, TypeError, KeyError) as error:
        raise NodeError(f"{path} is not as gpuadmin writes it ({type(error).__name__}: {error})") from None


def parse(given: Mapping[str, Any]) -> Settings:
    """Given what the file says, return it as settings. Raises TypeError, ValueError, KeyError."""
    values = dict(given)
    proxy = values.pop("proxy", None)
    for one in fields(Settings):
        if isinstance(values.get(one.name), list):
            values[one.name] = tuple(str(text) for text in values[one.name])
    settings = Settings(**values, proxy=None if proxy is None else _proxy(proxy))
    if settings.sees not in ("all", "own"):
        raise ValueError(f"sees is {settings.sees!r}")
    return settings


def _proxy(given: Mapping[str, Any]) -> Proxy:
    return Proxy(str(given["header"]).lower(), tuple(given["addresses"]), tuple(given.get("admins", ())))

"""How people come in, as the site says it: a part of the file of settings that the role ``dashboard`` writes."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .files import DashboardError, read_bytes

SETTINGS = "/etc/gpuadmin/dashboard.json"
_HEADER = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
#: Names that always mean this host: a forward of ssh's ends here.
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that has asked people who they are, and says it by a header, with a secret in another one."""

    header: str  # in lower case
    addresses: tuple[str, ...]  # where it connects from
    admins: frozenset[str]


@dataclass(frozen=True)
class SignIn:
    """``hosts``: the names under which the dashboard is asked, in lower case; others are refused."""

    prometheus: int  # its port on 127.0.0.1
    hosts: frozenset[str]
    proxy: Proxy | None


def load_sign_in(path: str = SETTINGS) -> SignIn:
    """Read the file of settings. Raises DashboardError if it is not what the role writes."""
    raw = read_bytes(path)
    if raw is None:
        raise DashboardError(f"{path} is missing: gpuadmin provision writes it")
    try:
        return parse_sign_in(json.loads(raw)["sign_in"])
    except (ValueError, TypeError, KeyError) as error:
        raise DashboardError(
            f"{path} is not what gpuadmin provision writes ({type(error).__name__}: {error})"
        ) from None


def parse_sign_in(given: Mapping[str, Any]) -> SignIn:
    """Given the part of the file, return it checked. Raises ValueError, TypeError, KeyError."""
    proxy = given["proxy"]
    return SignIn(
        _require_range(given["prometheus"], 1, 65535),
        frozenset([*LOOPBACK, *(str(name).lower() for name in given["hosts"])]),
        None if proxy is None else _parse_proxy(proxy),
    )


def _parse_proxy(given: Mapping[str, Any]) -> Proxy:
    header, addresses = str(given["header"]).lower(), given["addresses"]
    if not _HEADER.fullmatch(header) or not isinstance(addresses, list) or not addresses:
        raise ValueError("a proxy needs a header and addresses")
    # as nginx names whoever has connected
    return Proxy(header, tuple(str(ipaddress.ip_address(one)) for one in addresses), frozenset(given["admins"]))


def _require_range(value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{value!r} is not a number from {least} to {most}")
    return value

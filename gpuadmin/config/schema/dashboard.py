"""The dashboard: where it is asked, who may see what, and how people come in."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpuadmin.common.pressed import PORT
from gpuadmin.config.fields import HostName, LocalFile, UserName
from gpuadmin.config.schema.base import Model

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}")
#: Headers that browsers or proxies set for other purposes, and the dashboard's own.
_TAKEN = {
    "host", "cookie", "origin", "referer", "authorization", "content-type", "content-length", "user-agent",
    "x-gpuadmin-proxy-secret",
}  # fmt: skip


def _header(value: str) -> str:
    if not _HEADER.fullmatch(value) or value.lower() in _TAKEN or value.lower().startswith("sec-"):
        raise ValueError(f"{value[:60]!r} is not a proxy's header: for instance X-Remote-User")
    return value


def _proxy_address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError(f"{value[:60]!r} is not an IP address") from None


class Proxy(Model):
    """A reverse proxy that asks people who they are, and says it to the dashboard (single sign-on)."""

    header: Annotated[
        str,
        AfterValidator(_header),
        Field(
            description="The header in which the proxy says who asks, by login name. It must remove this header from "
            "the requests that it passes on."
        ),
    ]
    addresses: Annotated[
        list[Annotated[str, AfterValidator(_proxy_address)]],
        Field(min_length=1, max_length=20, description="The IP addresses that the proxy connects from."),
    ]
    admins: Annotated[
        list[UserName],
        Field(description="Login names of whoever is an admin to the dashboard when they come in this way."),
    ] = []


class Dashboard(Model):
    """The web page on the monitor host. The page "dashboard" of the documentation explains all of it."""

    enabled: Annotated[bool, Field(description="Whether there is one, where the group `monitor` has a host.")] = True
    port: Annotated[int, Field(ge=1024, le=65535, description="Its TCP port, for HTTPS alone.")] = 9443
    listen: Annotated[
        Literal["all", "loopback"],
        Field(description="`all`: on every address of the monitor host. `loopback`: it is reached through ssh alone."),
    ] = "all"
    names: Annotated[
        list[HostName],
        Field(
            max_length=20,
            description="Names that it answers to besides the host's address; links use the first one. "
            "Requests for other names are refused.",
        ),
    ] = []
    certificate: Annotated[
        LocalFile | None,
        Field(
            description="A file on the controller: the certificate (PEM, with those that signed it) that browsers are "
            "shown. Without one gpuadmin makes one, which browsers warn about."
        ),
    ] = None
    key: Annotated[LocalFile | None, Field(description="A file on the controller: its private key (PEM).")] = None
    buttons: Annotated[
        bool,
        Field(
            description="Whether people ask the queue on its pages as well (GPUs, more time, bookings, giving back). "
            'Whoever takes the dashboard over can then do that in anybody\'s name: the page "security".'
        ),
    ] = False
    proxy: Annotated[
        Proxy | None, Field(description="A reverse proxy that the dashboard trusts to say who signed in.")
    ] = None

    @property
    def wants_buttons(self) -> bool:
        """Whether there are buttons, and a page to have them."""
        return self.enabled and self.buttons

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.buttons and self.port == PORT:
            raise ValueError(f"port {PORT} is the one at which the buttons ask the queue: choose another")
        return self

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together: give both, or none")
        return self

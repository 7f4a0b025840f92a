"""What holds for every request and every answer: which name the dashboard is asked by, and what browsers may do."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from .access import Access, Stranger

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
#: Nothing from elsewhere, nothing inline, in no frame. `same-origin`: with `no-referrer` a browser does not say where a
#: form comes from (Origin: null).
HEADERS = {
    # guard: a page loads nothing from elsewhere -> "base-uri 'none'; form-action 'self'"
    # guard: a form goes nowhere else -> "default-src 'self'; base-uri 'none'"
    # guard: a page has no other base -> "default-src 'self'; form-action 'self'"
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",  # guard: a page is opened by no other
    "Cross-Origin-Resource-Policy": "same-origin",  # guard: a page is a part of no other
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # guard: a page is in no frame of an older browser
}

_HOST = re.compile(
    # guard: a port of the header Host is a number -> '(?:\\[([0-9A-Fa-f:.]+)\\]|([^\\s:@/\\\\\\[\\]?#]+))(?::.*)?'
    r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:@/\\\[\]?#]+))(?::[0-9]{0,5})?",
    re.ASCII,
)


class Guard:
    """Around the pages. ``hosts``: the names under which they are asked, in lower case."""

    def __init__(self, pages: Application, access: Access, hosts: frozenset[str]) -> None:
        self._pages, self._access, self._hosts = pages, access, hosts

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """One request, as ASGI has it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._pages(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)  # the page without a login has a policy of its own
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._find_refusal(Request(scope))
        if refused is None:
            await self._pages(scope, receive, sent)
        else:
            await refused(scope, receive, sent)

    def _find_refusal(self, request: Request) -> PlainTextResponse | None:
        given = request.headers.getlist("host")
        if (
            len(given) != 1  # guard: a request names the dashboard once
            or _parse_host_name(given[0]) not in self._hosts  # guard: the dashboard is asked by its own names
        ):
            return PlainTextResponse("This dashboard does not answer to that name.\n", 421)
        try:
            self._access.viewer(request)
        except Stranger:  # guard: a stranger with the proxy's header is refused
            return PlainTextResponse("Only the site's reverse proxy may say who somebody is.\n", 403)
        return None


def _parse_host_name(host: str) -> str:
    """From a header Host the name, without a port, in lower case. "" for what is none: a name of ours before something
    else would go on into addresses that are made of it.
    """
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()

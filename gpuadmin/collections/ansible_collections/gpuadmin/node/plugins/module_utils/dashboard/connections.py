"""HTTP connections that end: who says nothing, or never gets to an end, is hung up on. listener.py bounds how many."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 30.0  # between two looks at a connection; a request and its answer take less than one of them


class Bounded(H11Protocol):
    """uvicorn's own, with an end to waiting: uvicorn waits for the rest of a request as long as somebody wants."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        self._seen: object = None
        self._watch = self.loop.call_later(SECONDS, self._look)
        super().connection_made(cast(Any, transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """End a connection that is still where it was at the look before: at no request, or at the same one."""
        if self.cycle is self._seen:  # guard: a connection on which nothing goes on is ended
            self.transport.abort()
            return
        self._seen = self.cycle
        self._watch = self.loop.call_later(SECONDS, self._look)

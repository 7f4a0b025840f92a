"""HTTP connections with bounds: nobody keeps others out by opening connections and saying nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 30.0  # between two looks at a connection; a request and its answer take less than one of them
MOST = 64  # connections of one address at a time; people behind one address share them
MOST_HERE = 256  # of this host itself, from which forwards of ssh's come: as many as the unit's memory has room for
_HERE = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


class Bounded(H11Protocol):
    """uvicorn's own, with an end to waiting: uvicorn waits for the rest of a request as long as somebody wants."""

    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected: take it up, or hang up on whoever has too many."""
        found = transport.get_extra_info("peername")
        self._peer = str(found[0]) if found else ""
        Bounded._open[self._peer] += 1
        self._seen: object = None
        self._watch = self.loop.call_later(SECONDS, self._look)
        super().connection_made(cast(Any, transport))
        if Bounded._open[self._peer] > (MOST_HERE if self._peer in _HERE else MOST):
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._watch.cancel()
        Bounded._open[self._peer] -= 1
        if not Bounded._open[self._peer]:
            del Bounded._open[self._peer]
        super().connection_lost(exc)

    def _look(self) -> None:
        """End a connection that is still where it was at the look before: at no request, or at the same one."""
        if self.cycle is self._seen:
            self.transport.abort()
            return
        self._seen = self.cycle
        self._watch = self.loop.call_later(SECONDS, self._look)

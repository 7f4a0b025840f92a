"""The socket that people connect to, with bounds from the first packet on: a connection takes memory before TLS has
begun, and before any code of an HTTP server sees it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

MOST = 64  # connections of one address at a time; people behind one address share them
MOST_HERE = 256  # of this host itself, from which forwards of ssh's come
MOST_IN_ALL = 768  # as many as the unit's memory has room for
AT_ONCE = 16  # that are accepted in one turn of the event loop: in the next ones those end for which there is no room
LINGERING = 128  # that have lost their place and have not ended yet
_HERE = ("127.0.0.1", "::1")


class Connection(socket.socket):
    """One that was accepted. ``peer``: whom it is counted for."""

    peer = ""
    ended = False


class Listener(socket.socket):
    """Who connects is let in. Whoever has too many loses their oldest: nobody keeps others out by being silent, not
    even those who share an address with them.
    """

    def __init__(self, made: socket.socket) -> None:
        """Take over a socket that listens."""
        super().__init__(made.family, made.type, made.proto, fileno=made.detach())
        self._numbers, self._turn = count(), 0
        self._open: WeakValueDictionary[int, Connection] = WeakValueDictionary()  # the oldest first

    def accept(self) -> tuple[socket.socket, Any]:
        """As socket.accept(), which asyncio calls until nobody waits any more, or until it hears so from here."""
        self._turn += 1
        # guard: one turn accepts so many connections
        if self._turn > AT_ONCE:
            self._turn = 0
            raise BlockingIOError("later")
        plain, where = super().accept()
        found = Connection(plain.family, plain.type, plain.proto, fileno=plain.detach())
        found.peer = counted_for(str(where[0]))
        here = [one for _, one in sorted(self._open.items()) if one.fileno() >= 0]
        # guard: connections that were hung up on are bounded too
        if len(here) >= MOST_IN_ALL + LINGERING:
            found.close()
            raise ConnectionAbortedError("too many")
        self._open[next(self._numbers)] = found
        _make_room([one for one in [*here, found] if not one.ended], found.peer)
        return found, where


def _make_room(here: Sequence[Connection], peer: str) -> None:
    """Given those that are open, the oldest first, and whose the newest is, end one where there are too many."""
    having = Counter(one.peer for one in here)
    # guard: one address has so many connections -> True
    if having[peer] <= (
        MOST_HERE
        if peer in _HERE
        # guard: another address has fewer connections than this host
        else MOST
    ):
        # guard: there are so many connections in all -> True
        if len(here) <= MOST_IN_ALL:
            return
        peer = having.most_common(1)[0][0]
    oldest = next(one for one in here if one.peer == peer)
    oldest.ended = True
    with suppress(OSError):  # it may have gone by itself
        oldest.shutdown(socket.SHUT_RDWR)  # by which its server sees that it has ended


def address(text: str) -> str:
    """An address as it is compared: an IPv4 address that came in by an IPv6 socket is itself. "" for what is none."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(found, "ipv4_mapped", None)
    return str(
        mapped  # guard: an address of IPv4 is itself by an IPv6 socket
        or found
    )


def counted_for(text: str) -> str:
    """Whom connections from an address are counted for: of IPv6 a network, in which one machine has any address."""
    plain = address(text)
    # guard: one machine's addresses of IPv6 count as one -> True
    if ":" not in plain or plain in _HERE:
        return plain
    return str(ipaddress.ip_network((plain, 64), strict=False))

"""The next node of a chain, which gets a stream while it arrives.

What it gets is read from the file that this node writes for itself. So nothing is held in memory, and a next node that
is slow, stalls or fails does not affect this node's own copy.
"""

from __future__ import annotations

import os
import threading
import time
from ssl import SSLSocket

from ..errors import NodeError, in_words
from .chain_key import Credentials
from .tls_listener import HANDSHAKE, dial

BLOCK = 1 << 18  # what a node has of this size is passed on
DONE = b"\n"  # what a node answers when it has all of a stream
PATIENCE = 45.0  # seconds to reach the next node: it may not listen yet, or strangers may crowd its port
LAST_TRIES = 5.0  # seconds for that when this node has nothing else to do any more
STALLED = 60.0  # seconds without a byte after which a link is given up
FAREWELL = 600.0  # seconds that the next node has after this one is ready; it fetches the rest by itself


class Follower:
    """Passes a stream of ``size`` bytes on to ``host``. ``problem``: why the next node has not got all of it."""

    def __init__(
        self,
        host: str,
        port: int,
        size: int,
        credentials: Credentials,
        *,
        patience: float = PATIENCE,
        stalled: float = STALLED,
    ) -> None:
        self._host, self._port, self._size, self._credentials = host, port, size, credentials
        self._until, self._stalled = time.monotonic() + patience, stalled
        self._file = -1
        self._there, self._ended = 0, False
        self._moved = threading.Condition()
        self.sent = 0
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def reached(self, path: str, count: int) -> None:
        """The first ``count`` bytes of the stream are in a file now; in the same one every time."""
        with self._moved:
            if self._file < 0:
                self._file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._there = min(count, self._size)
            self._moved.notify_all()

    def close(self, seconds: float = FAREWELL) -> None:
        """No more comes. Let the next node have what is there, for so many seconds at most."""
        with self._moved:
            self._ended = True
            self._until = min(self._until, time.monotonic() + LAST_TRIES)
            self._moved.notify_all()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.problem = f"{self._host} took only {self.sent} of {self._size} bytes in time"
        elif self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _run(self) -> None:
        try:
            with self._connect() as connection:
                connection.settimeout(self._stalled)
                while self.sent < self._size:
                    self._pass_on(connection)
                if connection.recv(1) != DONE:  # guard: a next node that does not confirm has not got it
                    raise NodeError("it does not confirm that it has all of it")
        except (OSError, ValueError, NodeError) as error:
            self.problem = f"{self._host} got {self.sent} of {self._size} bytes along the chain: {in_words(error)}"

    def _connect(self) -> SSLSocket:
        """Whoever answers without the key gets nothing, and is called again: it may be gone by then."""
        while True:
            try:
                return self._credentials.call(dial(self._host, self._port, HANDSHAKE), HANDSHAKE)
            except (OSError, NodeError):
                if time.monotonic() > self._until or (self._ended and self._there < self._size):
                    raise
                time.sleep(0.2)  # the next node may not listen yet

    def _pass_on(self, connection: SSLSocket) -> None:
        with self._moved:
            while self._there <= self.sent:
                if self._ended:
                    raise NodeError("the rest of it did not come here")
                self._moved.wait()
            wanted = min(BLOCK, self._there - self.sent)
        block = os.pread(self._file, wanted, self.sent)
        if not block:
            raise NodeError("the file that it is read from has become shorter")
        connection.sendall(block)
        self.sent += len(block)

"""A port on which one caller is expected, on a machine whose people may call it, too, or take it first."""

from __future__ import annotations

import errno
import queue
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator

from ..errors import NodeError, in_words
from ..lookup import owner
from .chain_key import Credentials

HANDSHAKE = 5.0  # seconds that a caller has to prove itself
PENDING = 16  # callers who are proving themselves at a time, of each kind
LOOKED_UP = 64  # callers to look up; not a flood of them
NAMED = 8  # strangers to name
RESERVED = range(600, 1024)  # ports to call from that only root has (bind(2)); rpc takes its own from 665 as well
LISTENS, CONNECTED = "0A", "01"  # proc(5)


def listen(port: int) -> socket.socket:
    """Listen on a TCP port of IPv4. Raises NodeError that says who has it."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        holder = port_holder(port)
        raise NodeError(
            f"port {port} is taken by {holder or 'somebody who does not listen'} on this node"
            if error.errno == errno.EADDRINUSE
            else f"port {port}: {in_words(error)}"
        ) from error
    return listener


def _rows(table: str | None) -> Iterator[tuple[str, str, str, int]]:
    """Local address, remote address, state and uid, of the TCP sockets of this network namespace."""
    texts = [] if table is None else [table]
    for path in () if table is not None else ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as stream:
                texts.append(stream.read())
        except FileNotFoundError:
            continue  # a kernel without IPv6
    for text in texts:
        for line in text.splitlines()[1:]:
            columns = line.split()
            yield columns[1], columns[2], columns[3], int(columns[7])


def port_holder(port: int, table: str | None = None) -> str | None:
    """Who has a TCP port on this machine, whoever listens first. None: nobody that the kernel lists."""
    rows = [row for row in _rows(table) if row[0].endswith(f":{port:04X}")]
    rows.sort(key=lambda row: row[2] != LISTENS)
    return owner(rows[0][3]) if rows else None


def caller_name(address: str, port: int, ours: int, table: str | None = None) -> str:
    """Who called our port: the address, and the person where it is one on this machine.

    A local caller's socket is in our table with its ends the other way round.
    """
    local = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
    for row in _rows(table):
        if row[0].endswith(local) and row[1].endswith(f":{ours:04X}") and row[2] == CONNECTED:
            return f"{owner(row[3])} on this node"
    return address


class Door:
    """Waits for the one caller who holds the key. Whoever else calls is refused, and does not stop the wait.

    Each proves itself in a thread of its own. Callers from ports that only root has are counted by themselves, so that
    a person's connections leave no less room for the node before.
    """

    def __init__(self, listener: socket.socket, credentials: Credentials, handshake: float = HANDSHAKE) -> None:
        self._listener = listener
        self._credentials = credentials
        self._handshake = handshake
        self._proven: queue.Queue[ssl.SSLSocket] = queue.Queue(1)
        self._pending = {False: 0, True: 0}  # by whether the port is a reserved one
        self._lock = threading.Lock()
        self._port = int(listener.getsockname()[1])
        self._calls = 0
        self.strangers: list[str] = []  # who was refused, in words

    def admit(self, seconds: float) -> ssl.SSLSocket:
        """Return the connection of who holds the key. The port is closed then, or after so many seconds.

        Raises NodeError when nobody came.
        """
        end = time.monotonic() + seconds
        self._listener.settimeout(0.05)
        try:
            while time.monotonic() < end:
                try:
                    self._ask(*self._listener.accept())
                except OSError:
                    pass  # nobody came in time, or somebody left again
                try:
                    return self._proven.get_nowait()
                except queue.Empty:
                    continue
        finally:
            self._listener.close()
        raise NodeError(f"the node before has not come within {seconds:.0f} seconds")

    def _ask(self, raw: socket.socket, peer: tuple[str, int]) -> None:
        self._calls += 1
        # now: the kernel forgets whose a closed connection was
        name = caller_name(*peer, self._port) if self._calls <= LOOKED_UP else peer[0]
        reserved = peer[1] < 1024  # guard: callers with ports of root's have room of their own -> False
        with self._lock:
            full = self._pending[reserved] >= PENDING  # guard: only so many callers are served at a time -> False
            if not full:
                self._pending[reserved] += 1
        if full:
            raw.close()
            self._refused(name)
            return
        threading.Thread(target=self._prove, args=(raw, name, reserved), daemon=True).start()

    def _prove(self, raw: socket.socket, name: str, reserved: bool) -> None:
        try:
            connection = self._credentials.answer(raw, self._handshake)
        except (OSError, ValueError, NodeError):
            raw.close()
            self._refused(name)
        else:
            try:
                self._proven.put_nowait(connection)
            except queue.Full:
                connection.close()  # a second one with the key; the first is served
        finally:
            with self._lock:
                self._pending[reserved] -= 1

    def _refused(self, name: str) -> None:
        with self._lock:
            if name not in self.strangers and len(self.strangers) < NAMED:
                self.strangers.append(name)


def dial(host: str, port: int, seconds: float) -> socket.socket:
    """Connect to a TCP port of IPv4, from a port that only root has where there is a free one."""
    for own in (*_some_reserved(), 0):
        raw = socket.socket()
        try:
            raw.settimeout(seconds)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if own:
                try:
                    raw.bind(("", own))
                except OSError:
                    raw.close()
                    continue  # taken, or we are not root
            raw.connect((host, port))
        except BaseException:
            raw.close()
            raise
        return raw
    raise AssertionError("the last one is any port")


def _some_reserved(count: int = 8) -> list[int]:
    # the kernel has no "any reserved port"; a start that moves on does not meet the last connection's own
    begin = time.monotonic_ns() // 1000
    return [RESERVED[(begin + 37 * step) % len(RESERVED)] for step in range(count)]

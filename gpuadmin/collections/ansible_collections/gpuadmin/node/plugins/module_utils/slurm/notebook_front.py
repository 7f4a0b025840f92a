"""The way to people's notebooks on a node: what nginx on the monitor host asks for goes on to a person's JupyterLab.

Nobody else has the certificate. nginx has asked the dashboard who looks, and names that person; whose JupyterLab it is
that answers is the kernel's word (docs/decisions/0208-a-persons-notebook.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import stat
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from gpuadmin.common.names import LOGIN

from ..errors import NodeError, in_words
from ..lookup import Lookup, system_lookup
from ..peercred_service import given_socket, peer_uid
from .notebook import PLACE, PREFIX, SOCKET

AUTHORITY = "/etc/gpuadmin/metrics/authority.pem"
_REQUEST = re.compile(rf"[A-Z]{{1,20}} /[A-Za-z0-9._-]{{1,64}}/({LOGIN})/([1-9][0-9]{{0,9}})/")
LONGEST = 64 * 1024  # bytes of the first line
PATIENCE = 15.0  # seconds for a handshake and the first line
IDLE = 600.0  # seconds without a connection after which it ends; the next one starts it
MOST = 128  # connections of one person
_PART = 64 * 1024


def build_context(key: str, certificate: str, authority: str = AUTHORITY) -> ssl.SSLContext:
    """TLS as the node's exporter has it: only whoever Prometheus is gets through. Raises NodeError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED  # guard: only the monitor host asks for notebooks -> ssl.CERT_NONE
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except OSError as error:
        raise NodeError(f"the certificates of the front of notebooks cannot be read: {in_words(error)}") from None
    return context


def parse_request(line: bytes) -> tuple[str, str] | None:
    """Given the first line of a request, return whose notebook it is for, and of which job:
    `GET /node1/minji/17/lab HTTP/1.1` → (`minji`, `17`)."""
    found = _REQUEST.match(line.decode("latin-1"))
    return (found[1], found[2]) if found else None


def find_socket(job: str, uid: int, place: str = PLACE) -> str | None:
    """The socket in a directory of a job's that belongs to ``uid``. Anybody can make one that is called so."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith(f"{PREFIX}-{job}-"):
                continue
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                # guard: a directory that somebody else has put there is passed over
                if stat.S_ISDIR(found.st_mode) and found.st_uid == uid:
                    return os.path.join(entry.path, SOCKET)
    return None


@dataclass
class Front:
    """``open``: uid → connections. ``last``: when one was there, by time.monotonic."""

    place: str = PLACE
    lookup: Lookup = system_lookup
    open: Counter[int] = field(default_factory=Counter)
    last: float = field(default_factory=time.monotonic)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which has one request. What cannot be passed on is closed: nginx says why."""
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError,
                                     asyncio.LimitOverrunError):  # fmt: skip
                line = await asyncio.wait_for(reader.readuntil(b"\n"), PATIENCE)
                await self._pass_on(line, reader, writer)
        finally:
            self.last = time.monotonic()
            writer.close()

    async def _pass_on(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = parse_request(line)
        person = await asyncio.to_thread(self.lookup, asked[0]) if asked else None
        if asked is None or person is None:
            return
        uid = person[0]
        path = await asyncio.to_thread(find_socket, asked[1], uid, self.place)
        if path is None or self.open[uid] >= MOST:  # guard: one person's connections leave room for others'
            return
        self.open[uid] += 1
        try:
            theirs, to_theirs = await asyncio.wait_for(asyncio.open_unix_connection(path), PATIENCE)
            try:
                # guard: what answers is the person's own, wherever their socket leads
                if peer_uid(to_theirs.get_extra_info("socket")) != uid:
                    print(f"uid {uid}: {path} is not theirs", file=sys.stderr, flush=True)
                    return
                to_theirs.write(line)
                ways = [asyncio.ensure_future(_copy(reader, to_theirs)), asyncio.ensure_future(_copy(theirs, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for one in ways:
                    one.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
            finally:
                to_theirs.close()
        finally:
            self.open[uid] -= 1

    async def serve(self, listener: socket.socket, context: ssl.SSLContext, idle: float = IDLE) -> None:
        """Answer until nobody was there for ``idle`` seconds."""
        server = await asyncio.start_server(
            self.answer, sock=listener, ssl=context, limit=LONGEST, ssl_handshake_timeout=PATIENCE
        )
        async with server:
            while +self.open or time.monotonic() < self.last + idle:
                await asyncio.sleep(min(idle, 5.0))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(_PART):
        writer.write(part)
        await writer.drain()


def main() -> int:
    """What the unit runs: systemd gives the socket, key and certificate. Raises NodeError."""
    listener, given = given_socket(), os.environ.get("CREDENTIALS_DIRECTORY")
    if listener is None or not given:
        print("this is started by gpuadmin-notebooks.socket", file=sys.stderr)
        return 2
    context = build_context(os.path.join(given, "key"), os.path.join(given, "certificate"))
    asyncio.run(Front().serve(listener, context))
    return 0

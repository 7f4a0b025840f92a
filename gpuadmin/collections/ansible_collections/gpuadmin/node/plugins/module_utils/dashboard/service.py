"""The dashboard's process: settings and credentials in, pages over TLS out, until systemd or new code ends it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from asyncio import sslproto
from contextlib import suppress

import uvicorn

from ..errors import NodeError
from ..files import read_bytes
from ..metrics.running import superseded, tell
from .access import Access
from .app import application
from .connections import Bounded
from .entrance import SETTINGS, Entrance, load_entrance
from .guard import Guard
from .listener import Listener
from .prometheus import Prometheus
from .spent import Spent
from .viewer import load_settings

FILES = "/usr/local/share/gpuadmin/dashboard"
MOST_REQUESTS = 1024  # that are under way; who has asked and gone away is still one of them
LOOKS = 30.0  # seconds between two looks at which code this host runs
SECRET_BYTES = 32
TLS_BUFFER = 16384  # bytes, which is the longest record (RFC 8446, 5.1)


def main(settings: str = SETTINGS, files: str = FILES) -> int:
    """What the unit runs; systemd gives it credentials and a directory (systemd.exec(5)). Raises NodeError."""
    credentials, state = os.environ.get("CREDENTIALS_DIRECTORY"), os.environ.get("STATE_DIRECTORY")
    if not credentials or not state:
        raise NodeError("this is started by gpuadmin-dashboard.service: systemctl status gpuadmin-dashboard")
    entrance = load_entrance(settings)
    guard = guarded(entrance, settings, files, credentials, state)
    server = uvicorn.Server(configuration(guard, f"{credentials}/certificate", f"{credentials}/key"))
    asyncio.run(serve(server, listening(entrance)))
    return 0 if server.started else 1


def guarded(entrance: Entrance, settings: str, files: str, credentials: str, state: str) -> Guard:
    """Given where everything is, return all pages behind their guard. Raises NodeError."""
    known = load_settings(settings)
    secret = _credential(credentials, "secret")
    try:
        key = bytes.fromhex(secret)
    except ValueError:
        key = b""
    if len(key) != SECRET_BYTES:
        raise NodeError("the dashboard's secret is not what gpuadmin provision writes")
    access = Access(
        entrance, key, Spent(f"{state}/spent", time.time()), nodes=known.nodes, sees=known.sees, cluster=known.cluster,
        files=files, proxy_secret=_credential(credentials, "proxy") if entrance.proxy is not None else "",
    )  # fmt: skip
    prometheus = Prometheus(port=entrance.prometheus)
    return Guard(application(prometheus=prometheus, access=access, settings=known, files=files), access, entrance.hosts)


def configuration(guard: Guard, certificate: str, key: str) -> uvicorn.Config:
    """How uvicorn serves: TLS alone, no log of addresses (a link is one), no header that says who has connected."""
    return uvicorn.Config(
        guard, ssl_certfile=certificate, ssl_keyfile=key, loop="asyncio", http=Bounded, ws="none", access_log=False,
        log_level="warning", proxy_headers=False, server_header=False, timeout_keep_alive=10,
        limit_concurrency=MOST_REQUESTS,  # guard: requests that are under way are bounded
    )  # fmt: skip


def listening(entrance: Entrance) -> Listener:
    """The socket that people connect to: on one address, or on every one of both kinds. Raises OSError."""
    if entrance.listen:
        family = socket.AF_INET6 if ":" in entrance.listen else socket.AF_INET
        made = socket.create_server((entrance.listen, entrance.port), family=family, backlog=128)
    elif socket.has_dualstack_ipv6():
        made = socket.create_server(("", entrance.port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True)
    else:
        made = socket.create_server(("", entrance.port), backlog=128)
    return Listener(made)


async def serve(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until a signal comes, or new code."""
    # asyncio takes a quarter of a megabyte for each connection, and only the garbage collector gives it back
    sslproto.SSLProtocol.max_size = TLS_BUFFER  # type: ignore[attr-defined,unused-ignore]  # private until 3.11
    ended = asyncio.ensure_future(_until_new_code(server))
    try:
        await server.serve(sockets=[listener])
    finally:
        ended.cancel()
        with suppress(asyncio.CancelledError):
            await ended


async def _until_new_code(server: uvicorn.Server, every: float = LOOKS) -> None:
    """Tell systemd that it serves, and that it goes on; end it when the host has other code, with which systemd starts
    it again.
    """
    while not server.started:
        await asyncio.sleep(0.05)
    tell("READY=1")
    while not superseded():
        await asyncio.sleep(every)
        tell("WATCHDOG=1")
    print("there is new code: starting again", file=sys.stderr, flush=True)
    server.should_exit = True


def _credential(directory: str, name: str) -> str:
    raw = read_bytes(os.path.join(directory, name))
    if raw is None:
        raise NodeError(f"systemd gave no credential {name!r}: gpuadmin provision writes the unit")
    return raw.decode("ascii", "replace").strip()

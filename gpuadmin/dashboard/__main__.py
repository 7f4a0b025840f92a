"""The dashboard's process: settings and credentials in, pages out, on the socket that systemd gives and nginx asks."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress

import uvicorn

from .access import Access
from .app import application
from .door import Door
from .files import DashboardError, read_bytes
from .guard import Guard
from .prometheus import Prometheus
from .sign_in import SETTINGS, load_sign_in
from .used_tokens import UsedTokens
from .viewer import load_settings

FILES = os.path.dirname(os.path.abspath(__file__))  # templates and static files are beside the code
DOOR_AUTHORITY = "/etc/gpuadmin/dashboard-door-authority.pem"  # who has signed what the queue's host shows
GIVEN = 3  # the descriptor of the first socket that systemd gives (sd_listen_fds(3))
MOST_REQUESTS = 1024  # that are under way; somebody who has asked and gone away still counts
SECRET_BYTES = 32


def main(settings: str = SETTINGS) -> int:
    """What the unit runs; systemd gives it credentials, a directory and a socket. Raises DashboardError."""
    credentials, state = os.environ.get("CREDENTIALS_DIRECTORY"), os.environ.get("STATE_DIRECTORY")
    if not credentials or not state or os.environ.get("LISTEN_FDS") != "1":
        raise DashboardError("this is started by gpuadmin-dashboard.service: systemctl status gpuadmin-dashboard")
    server = uvicorn.Server(configuration(guarded(settings, credentials, state), fd=GIVEN))
    server.run()
    return 0 if server.started else 1


def guarded(settings: str, credentials: str, state: str) -> Guard:
    """Given where everything is, return all pages behind their guard. Raises DashboardError."""
    known, sign_in = load_settings(settings), load_sign_in(settings)
    secret = _credential(credentials, "secret")
    try:
        key = bytes.fromhex(secret)
    except ValueError:
        key = b""
    if len(key) != SECRET_BYTES:
        raise DashboardError("the dashboard's secret is not what gpuadmin provision writes")
    access = Access(
        sign_in, key, UsedTokens(f"{state}/spent", time.time()), nodes=known.nodes, cluster=known.cluster,
        files=FILES, proxy_secret=_credential(credentials, "proxy") if sign_in.proxy is not None else "",
    )  # fmt: skip
    prometheus = Prometheus(port=sign_in.prometheus)
    door = Door(known.queue_host, DOOR_AUTHORITY, f"{credentials}/buttons") if known.buttons else None
    pages = application(
        prometheus=prometheus, access=access, settings=known, files=FILES, alive=_tell_watchdog, door=door
    )
    return Guard(pages, access, sign_in.hosts)


def configuration(guard: Guard, *, fd: int) -> uvicorn.Config:
    """How uvicorn serves: no log of addresses (a link is one). Nobody but nginx reaches the socket, so what it says
    about who has connected is believed.
    """
    return uvicorn.Config(
        guard, fd=fd, loop="asyncio", http="h11", ws="none", access_log=False, log_level="warning",
        proxy_headers=True, forwarded_allow_ips="*", server_header=False,
        limit_concurrency=MOST_REQUESTS,  # guard: requests that are under way are bounded
    )  # fmt: skip


def _tell_watchdog() -> None:
    """Tell systemd, which starts a process again that does not go on (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, suppress(OSError):
            channel.sendto(b"WATCHDOG=1", f"\0{address[1:]}" if address.startswith("@") else address)


def _credential(directory: str, name: str) -> str:
    raw = read_bytes(os.path.join(directory, name))
    if raw is None:
        raise DashboardError(f"systemd gave no credential {name!r}: gpuadmin provision writes the unit")
    return raw.decode("ascii", "replace").strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (DashboardError, OSError) as error:
        sys.exit(f"Error: {error}")

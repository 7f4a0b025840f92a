"""The dashboard's service in this process: over TLS, on a port of the loopback interface, as its unit has it."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from ansible_collections.gpuadmin.node.plugins.module_utils.dashboard import entrance, service

from gpuadmin.monitoring import certificates, tokens
from tests.unit.node.dashboard.answering import answering

ROOT = Path(__file__).parents[4]
SITE_SECRET = bytes(range(32))
SECRET = tokens.dashboard_secret(SITE_SECRET)
PROXY_SECRET = "a secret of the proxy alone"
PROXY = {"header": "X-Remote-User", "addresses": ["127.0.0.1"], "admins": ["yseong"]}
ACCESS: Mapping[str, Any] = {
    "port": 1, "listen": "127.0.0.1", "prometheus": 1, "hosts": ["monitor.example"], "link_minutes": 10,
    "session_hours": 12, "proxy": None,
}  # fmt: skip


def link(name: str = "minji", signer: str = "node1", at: float | None = None, kind: str = tokens.LINK) -> str:
    """A link as a node signs it, or as the controller does."""
    key = tokens.signing_key(SECRET, kind, signer)
    return tokens.sign(key, kind, signer, name, int(time.time() if at is None else at))


def admin_link(name: str = "yseong@desk") -> str:
    return link(name, tokens.CONTROLLER, kind=tokens.ADMIN_LINK)


class Running:
    """A service that answers at `url`."""

    def __init__(self, directory: Path, server: uvicorn.Server, port: int) -> None:
        self.directory, self.server, self.port = directory, server, port
        self.url = f"https://localhost:{port}"

    def client(self, **options: Any) -> httpx.Client:
        """A browser: it takes the dashboard's certificate alone, keeps cookies and follows nothing by itself."""
        context = ssl.create_default_context(cadata=certificates.web_authority(SITE_SECRET))
        return httpx.Client(base_url=self.url, verify=context, timeout=30, **options)


def written(directory: Path, access: Mapping[str, Any], pages: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Everything that the role writes: settings, files, credentials, state."""
    settings, credentials, state = directory / "dashboard.json", directory / "credentials", directory / "state"
    files = directory / "files"
    for one in (credentials, state):
        one.mkdir(exist_ok=True)
    if not files.exists():
        shutil.copytree(ROOT / "roles/dashboard/files", files)
    known = {"cluster": "lab <b>", "nodes": ["node1", "node2"], "sees": "all", **pages}
    settings.write_text(json.dumps({**known, "entrance": {**ACCESS, **access}}))
    identity = certificates.dashboard(SITE_SECRET, ["monitor.example", "localhost", "127.0.0.1"])
    given = {
        "secret": f"{SECRET.hex()}\n", "key": identity.key, "certificate": identity.certificate, "proxy": PROXY_SECRET,
    }  # fmt: skip
    for name, text in given.items():
        (credentials / name).write_text(text)
    return str(settings), str(files), str(credentials), str(state)


@contextmanager
def running(directory: Path, *, access: Mapping[str, Any] | None = None, **pages: Any) -> Iterator[Running]:
    """The service as its unit runs it, but for the process."""
    with answering() as prometheus:
        yield from _running(directory, {"prometheus": prometheus.port, **(access or {})}, pages)


def _running(directory: Path, access: Mapping[str, Any], pages: Mapping[str, Any]) -> Iterator[Running]:
    settings, files, credentials, state = written(directory, access, pages)
    found = entrance.load_entrance(settings)
    guard = service.guarded(found, settings, files, credentials, state)
    server = uvicorn.Server(service.configuration(guard, f"{credentials}/certificate", f"{credentials}/key"))
    listener = service.listening(entrance.entrance_of({**ACCESS, **access, "port": free_port()}))
    thread = threading.Thread(target=lambda: asyncio.run(service.serve(server, listener)), daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive(), "the service has ended"
        assert time.monotonic() < end, "the service does not start"
        time.sleep(0.01)  # it starts in a thread
    try:
        yield Running(directory, server, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def connect(service: Running) -> ssl.SSLSocket:
    """A connection that says what a test lets it say."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    found = context.wrap_socket(socket.create_connection(("127.0.0.1", service.port), 10), server_hostname="localhost")
    found.settimeout(10)
    return found

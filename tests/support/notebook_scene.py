"""Notebooks on this machine: what the role has nginx do, the dashboard, a front of node1, and people's servers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import notebook, notebook_front

from gpuadmin.monitoring import certificates
from tests.support.dashboard_service import SITE_SECRET, Running, link, running
from tests.support.prometheus import free_port

#: People of the scene, and their uids.
UIDS = {"minji": 62001, "jiho": 62002}
#: A person's server that says what it was sent, and tries to leave something behind in the browser.
ECHO = """
import encodings.latin_1, json, os, socket, sys
path, uid = sys.argv[1:]
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(path); os.chmod(path, 0o600); listener.listen(9); print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            head = b""
            while b"\\r\\n\\r\\n" not in head:
                part = connection.recv(65536)
                if not part:
                    break
                head += part
            if not head:
                continue
            body = json.dumps({"uid": os.getuid(), "head": head.decode("latin-1")}).encode()
            connection.sendall(b"HTTP/1.1 200 OK\\r\\nSet-Cookie: __Host-gpuadmin=evil; Secure; Path=/\\r\\n"
                b"Clear-Site-Data: \\"cookies\\"\\r\\nContent-Type: application/json\\r\\n"
                b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
"""


class Scene:
    """``place``: what is /tmp on a node. ``port``: of notebooks; ``front``: of the node's front."""

    def __init__(self, board: Running, leading: notebook_front.Front, port: int, front: int, stack: ExitStack) -> None:
        self.board, self.leading, self.port, self.front, self._stack = board, leading, port, front, stack
        self.place = Path(leading.place)
        self._cookies: dict[str, dict[str, str]] = {}  # somebody comes in fifty times at most

    def directory(self, name: str, job: str, suffix: str = "x") -> Path:
        """The directory of a job of somebody's, as the job makes it."""
        path = self.place / f"{notebook.PREFIX}-{job}-{suffix}"
        path.mkdir(mode=0o700)
        os.chown(path, UIDS[name], UIDS[name])
        return path

    def serve(self, name: str, job: str) -> Path:
        """A server of somebody's, for as long as the scene; its directory."""
        path = self.directory(name, job)
        self.run(name, str(path / notebook.SOCKET))
        return path

    def run(self, name: str, path: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-Ic", ECHO, path, str(UIDS[name])], stdout=subprocess.PIPE
        )  # fmt: skip
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    def browser(self, name: str | None, text: str | None = None) -> httpx.Client:
        """A browser in which somebody has come in; None: nobody has."""
        client = self._stack.enter_context(self.board.client())
        if name is not None and (text or name not in self._cookies):
            client.post("/enter", data={"link": text or link(name)})
            self._cookies[text or name] = dict(client.cookies)
        elif name is not None:
            client.cookies.update(self._cookies[name])
        return client

    def get(self, client: httpx.Client, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        """An answer at the port of notebooks; underscores of headers are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.request(method, f"https://localhost:{self.port}{path}", headers=named)


@contextmanager
def scene(directory: Path, nginx: dict[str, str] | None = None, **pages: Any) -> Iterator[Scene]:
    """Everything between a browser and people's sockets, on this machine."""
    port, front = free_port(), free_port()
    with (
        tempfile.TemporaryDirectory() as temporary,
        ExitStack() as stack,
        _front(directory, Path(temporary), front) as leading,
        running(directory, nginx=nginx, front=front, notebooks=port, **pages) as board,
    ):
        yield Scene(board, leading, port, front, stack)


@contextmanager
def _front(directory: Path, place: Path, port: int) -> Iterator[notebook_front.Front]:
    """The front of node1, in a thread."""
    place.chmod(0o1777)  # pytest's own directories let nobody else through
    given = certificates.exporter(SITE_SECRET, "node1", "127.0.0.1")
    files = {"key": given.key, "certificate": given.certificate, "authority": certificates.authority(SITE_SECRET)}
    for name, text in files.items():
        (directory / f"front-{name}").write_text(text)
    context = notebook_front.build_context(*(str(directory / f"front-{name}") for name in files))
    found = notebook_front.Front(str(place), lambda name: (UIDS[name], UIDS[name]) if name in UIDS else None)
    listener = socket.create_server(("127.0.0.1", port))
    loop = asyncio.new_event_loop()
    task = loop.create_task(found.serve(listener, context))

    def serve() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        finally:
            loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(30)
        assert not thread.is_alive()

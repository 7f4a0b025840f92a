"""A daemon of Docker's, as far as gpuadmin asks it: images, volumes and containers, over a socket."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class FakeDocker:
    """`root`: where its data is. `broken`: it says that of an image that is loaded. `callers`: uids that asked it."""

    root: Path
    socket: Path
    owner: int = 0
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    callers: set[int] = field(default_factory=set)
    broken: str = ""

    def image(self, ident: str, *tags: str) -> str:
        self.images[ident] = {"Id": ident, "RepoTags": list(tags), "Size": 5, "RootFS": {"Layers": [ident]}}
        return ident

    def volume(self, name: str, **more: Any) -> Path:
        at = self.root / "volumes" / name / "_data"
        at.mkdir(parents=True, exist_ok=True)
        for one in (at.parent.parent, at.parent, at) if self.owner else ():
            os.chown(one, self.owner, self.owner)
        self.volumes[name] = {"Name": name, "Driver": "local", "Mountpoint": str(at), "CreatedAt": "then", **more}
        return at

    def container(self, name: str, image: str, *volumes: str, running: bool = False, **config: Any) -> str:
        ident = (name.encode().hex() * 64)[:64]
        mounts = [{"Type": "volume", "Name": one, "Destination": "/data", "RW": True} for one in volumes]
        self.containers[ident] = {
            "Id": ident, "Name": f"/{name}", "Image": image, "State": {"Running": running}, "Mounts": mounts,
            "Config": config,
        }  # fmt: skip
        return ident

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        self.asked.append(f"{method} {target}")
        parts, query = urlsplit(target), parse_qs(urlsplit(target).query)
        kind, _, rest = unquote(parts.path).lstrip("/").partition("/")
        if method == "GET" and kind == "info":
            return 200, {"SecurityOptions": []}
        if kind == "system":
            return 200, {"Volumes": [{"Name": one, "UsageData": {"Size": 7}} for one in self.volumes]}
        return getattr(self, f"_{kind}")(method, rest, query, body)

    def _volumes(self, method: str, rest: str, _query: Any, body: bytes) -> tuple[int, Any]:
        if rest == "create":
            given = json.loads(body)
            self.volume(given["Name"], Labels=given["Labels"])
            return 201, self.volumes[given["Name"]]
        if not rest:
            return 200, {"Volumes": list(self.volumes.values())}
        if rest not in self.volumes:
            return 404, {"message": "no such volume"}
        if method == "DELETE":
            del self.volumes[rest]
            return 204, None
        return 200, self.volumes[rest]

    def _found(self, name: str) -> str | None:
        return next((key for key, one in self.images.items() if name == key or name in one["RepoTags"]), None)

    def _images(self, method: str, rest: str, query: Any, body: bytes) -> tuple[int, Any]:  # noqa: PLR0911 - a branch for each call of the API
        if rest == "json":
            return 200, list(self.images.values())
        if rest == "load":
            if not self.broken:
                self.image(body.decode())
            return 200, {"errorDetail": {"message": self.broken}} if self.broken else {"stream": "Loaded"}
        name = rest if method == "DELETE" else rest.rpartition("/")[0]
        ident = self._found(name)
        if ident is None:
            return 404, {"message": "no such image"}
        if method == "DELETE":
            self.images[ident]["RepoTags"] = [one for one in self.images[ident]["RepoTags"] if one != name]
            if not self.images[ident]["RepoTags"]:
                del self.images[ident]
            return 200, []
        if rest.endswith("/get"):
            return 200, ident.encode()
        if rest.endswith("/tag"):
            self.images[ident]["RepoTags"].append(f"{query['repo'][0]}:{query['tag'][0]}")
            return 201, None
        return 200, self.images[ident]

    def _containers(self, method: str, rest: str, query: Any, _body: bytes) -> tuple[int, Any]:
        if rest == "json":
            wanted = json.loads(query.get("filters", ["{}"])[0]).get("volume")
            found = [one for one in self.containers.values() if query["all"] == ["1"] or one["State"]["Running"]]
            found = [one for one in found if not wanted or {each["Name"] for each in one["Mounts"]} & set(wanted)]
            return 200, [{"Id": one["Id"], "Names": [one["Name"]], "ImageID": one["Image"]} for one in found]
        ident = rest.partition("/")[0]
        if ident not in self.containers:
            return 404, {"message": "no such container"}
        if method == "DELETE":
            del self.containers[ident]
            return 204, None
        return 200, [{"Path": "/own", "Kind": 1}] if rest.endswith("/changes") else self.containers[ident]

    def start(self) -> None:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def handle_all(self) -> None:
                peer = self.request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                fake.callers.add(struct.unpack("3i", peer)[1])
                body = b""
                while self.headers.get("Transfer-Encoding") and (size := int(self.rfile.readline(), 16)):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                status, found = fake.answer(self.command, self.path, body)
                text = found if isinstance(found, bytes) else b"" if found is None else json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = handle_all

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(str(self.socket), Handler)
        if self.owner:
            os.chown(self.socket, self.owner, self.owner)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

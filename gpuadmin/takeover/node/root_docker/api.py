"""Docker's API over a daemon's socket: root's own as root, and a person's as that person.

A person's daemon says whatever they like: its answers have bounds, and shape nothing but what they have themselves.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ansible_collections.gpuadmin.node.plugins.module_utils.backups.transfer import RATE
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import read_bytes
from ansible_collections.gpuadmin.node.plugins.module_utils.people import acting_as

SOCKET, PID = "/run/docker.sock", "/run/docker.pid"
SECONDS = 600.0  # of a question and its answer; an image may take more (RATE)
LARGEST = 16 << 20  # bytes of an answer
PIECE = 1 << 20
LATE = "takes too long to answer"


class Missing(NodeError):
    """A daemon has nothing of that name."""


class _Bounded(socket.socket):
    """A socket that takes and gives nothing after its ``end``, however often a byte comes."""

    end = 0.0

    def bound(self) -> None:
        left = self.end - time.monotonic()
        if left <= 0:  # guard: who never ceases to send is not waited for
            raise socket.timeout("took too long")
        self.settimeout(left)  # guard: a byte now and then is no answer

    def recv_into(self, *given: Any, **more: Any) -> int:
        self.bound()
        return super().recv_into(*given, **more)

    def sendall(self, *given: Any, **more: Any) -> None:
        self.bound()
        super().sendall(*given, **more)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, person: tuple[int, int] | None, seconds: float) -> None:
        super().__init__("docker")
        self._path, self._person, self._end = path, person, time.monotonic() + seconds

    def connect(self) -> None:
        self.sock = _Bounded(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.end = self._end
        self.sock.bound()
        if self._person is None or os.geteuid() != 0:
            self.sock.connect(self._path)
            return
        with acting_as(*self._person):  # guard: a person's socket is opened as that person
            self.sock.connect(self._path)


class Daemon:
    """A daemon at a socket. ``person``: the uid and gid whose it is; None: root's. ``seconds``: of any answer."""

    def __init__(self, path: str, person: tuple[int, int] | None = None, seconds: float = SECONDS) -> None:
        self.path, self.person, self.seconds = path, person, seconds

    @property
    def _whose(self) -> str:
        return "root's Docker" if self.person is None else "their Docker"

    def _sent(
        self, method: str, target: str, body: Any, headers: Mapping[str, str], size: int = 0
    ) -> tuple[_Connection, http.client.HTTPResponse]:
        channel = _Connection(self.path, self.person, self.seconds + size / RATE)
        try:
            try:
                channel.request(method, target, body, dict(headers), encode_chunked=body is not None)
            except BrokenPipeError:  # it has said why before it had read all
                pass
            answer = channel.getresponse()
        except (http.client.HTTPException, OSError) as error:
            channel.close()
            if isinstance(error, socket.timeout):
                raise NodeError(f"{self._whose} {LATE}") from None
            words = getattr(error, "strerror", None) or type(error).__name__
            raise NodeError(f"{self._whose} does not answer: {words}") from None
        if answer.status >= 400:
            text = self._read(channel, answer, 4096).decode("utf-8", "replace")
            raise (Missing if answer.status == 404 else NodeError)(f"{self._whose} says: {_message(text)}")
        return channel, answer

    def ask(self, method: str, target: str, document: object = None, **query: str) -> Any:
        """What a daemon's JSON says; None where it says nothing. Raises Missing for what it has not, NodeError."""
        body = None if document is None else iter([json.dumps(document).encode()])
        return self._answered(method, _with(target, query), body, "application/json")

    def _read(self, channel: _Connection, answer: http.client.HTTPResponse, most: int) -> bytes:
        try:
            return answer.read(most)
        except (http.client.HTTPException, OSError) as error:
            raise NodeError(f"{self._whose} {LATE if isinstance(error, socket.timeout) else 'broke off'}") from None
        finally:
            channel.close()

    def _answered(self, method: str, target: str, body: Iterator[bytes] | None, kind: str, size: int = 0) -> Any:
        headers = {} if body is None else {"Content-Type": kind, "Transfer-Encoding": "chunked"}
        channel, answer = self._sent(method, target, body, {**headers, "Connection": "close"}, size)
        text = self._read(channel, answer, LARGEST + 1)
        if len(text) > LARGEST:  # guard: what a daemon says has an end
            raise NodeError(f"{self._whose} sends more than {LARGEST} bytes")
        if kind != "application/json":
            return text.decode("utf-8", "replace")
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            raise NodeError(f"{self._whose} sends something that is not JSON") from None

    def find(self, target: str) -> dict[str, Any] | None:
        """The same for one thing; None: the daemon has none of the name."""
        try:
            found = self.ask("GET", target)
        except Missing:
            return None
        if not isinstance(found, dict):
            raise NodeError(f"{self._whose} sends something unexpected")
        return found

    def listed(self, target: str, **query: str) -> list[dict[str, Any]]:
        found = self.ask("GET", target, **query)
        return [one for one in found or [] if isinstance(one, dict)]

    def sent_image(self, ident: str, to: Daemon, size: int) -> str:
        """Have another daemon load an image of this one, which is never on a disk in between. Returns what it says.

        ``size``: bytes of the image, for which both have their time.
        """
        channel, answer = self._sent("GET", f"/images/{quote(ident)}/get", None, {"Connection": "close"}, size)

        def pieces() -> Iterator[bytes]:
            while piece := answer.read(PIECE):
                yield piece

        try:
            said: str = to._answered("POST", "/images/load?quiet=1", pieces(), "application/x-tar", size)
        finally:
            channel.close()
        return said


def _with(target: str, query: Mapping[str, str]) -> str:
    return f"{target}?{urlencode(query)}" if query else target


def _message(text: str) -> str:
    try:
        found = json.loads(text)
        text = str(found["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return " ".join(text.split())[:300] or "no"


def room(place: str, size: int) -> None:
    """Raise NodeError unless so many bytes are free at a place."""
    facts = os.statvfs(place)
    free = facts.f_bavail * facts.f_frsize
    if size > free:
        raise NodeError(f"has no room: it needs {size} bytes, {free} are free")


def running(path: str = SOCKET, pid: str = PID) -> bool:
    """Whether root's daemon runs. To ask its socket would start it, and containers that restart by themselves."""
    number = (read_bytes(pid) or b"").strip()
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return (
        number.isdigit()
        and os.path.isdir(f"/proc/{int(number)}")  # guard: root's daemon is not started by being asked -> True
        and stat.S_ISSOCK(facts.st_mode)
        and facts.st_uid == 0  # guard: a socket of somebody's is not root's Docker
    )

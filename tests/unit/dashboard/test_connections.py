"""Nobody keeps others out by opening connections and saying nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.dashboard import connections, listener

from tests.unit.node.dashboard.doorway import Running, connect, link, running


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(connections, "SECONDS", 0.5)
    monkeypatch.setattr(listener, "MOST_HERE", 10)
    with running(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


def gone(channel: ssl.SSLSocket) -> bool:
    """Whether the other end hangs up (within ten seconds)."""
    try:
        return channel.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /enter HTT",
        b"POST /enter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\nlink=",
        b"POST /enter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nlink=",
    ],
    ids=["nothing", "half a line", "half a form", "half a chunk"],
)
def test_whoever_does_not_go_on_is_hung_up_on(said: bytes, service: Running) -> None:
    begun = time.monotonic()
    with connect(service) as channel:
        channel.sendall(said)
        assert gone(channel)
        assert time.monotonic() - begun < 5


def test_one_byte_after_the_other_is_no_way_around_it(service: Running) -> None:
    with connect(service) as channel, contextlib.suppress(OSError):
        end = time.monotonic() + 8
        for byte in b"GET /enter HTTP/1.1\r\nX-A: " + b"a" * 1000:
            channel.sendall(bytes([byte]))
            time.sleep(0.05)  # slower than anybody, and never silent
            if time.monotonic() > end:
                pytest.fail("it waits")


def test_one_address_has_so_many_and_its_oldest_goes(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 60)  # that nothing went on would end one more as well
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(service)) for _ in range(10)]
        stack.enter_context(connect(service))
        assert gone(held[0])
        held[1].settimeout(0.2)
        assert not gone(held[1])
        with service.client() as browser:
            assert browser.post("/enter", data={"link": link()}).status_code == 303, "who is silent keeps nobody out"


def test_who_does_not_even_begin_with_tls_keeps_nobody_out(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a connection reaches no code of the HTTP server's for a minute, and takes memory and a descriptor."""
    monkeypatch.setattr(connections, "SECONDS", 60)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), 10))
        with service.client() as browser:
            assert browser.get("/enter").status_code == 200
        # of this process are both ends
        assert len(list(Path("/proc/self/fd").iterdir())) - before - 300 < 20


def test_another_address_has_fewer_than_this_host(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwards of many people's ssh come from this host; nobody else has so many."""
    monkeypatch.setattr(listener, "_HERE", ())
    monkeypatch.setattr(listener, "MOST", 3)
    monkeypatch.setattr(connections, "SECONDS", 30.0)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(service)) for _ in range(4)]
        begun = time.monotonic()
        assert gone(held[0])
        assert time.monotonic() - begun < 8


def test_a_head_without_end_is_refused(service: Running) -> None:
    with connect(service) as channel:
        with contextlib.suppress(OSError):
            channel.sendall(b"GET /enter HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 1_000_000)
        try:
            answer = channel.recv(100)
        except OSError:
            answer = b""
        assert answer == b"" or b" 400 " in answer

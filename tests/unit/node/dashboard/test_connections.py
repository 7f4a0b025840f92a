"""Nobody keeps others out by opening connections and saying nothing."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Iterator

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.dashboard import connections

from tests.unit.node.dashboard.doorway import Running, connect, link, running


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(connections, "SECONDS", 0.5)
    monkeypatch.setattr(connections, "MOST_HERE", 10)
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


def test_one_address_has_so_many_and_they_are_free_again(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 60)  # that nothing went on would end one more as well
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(service)) for _ in range(10)]
        assert gone(stack.enter_context(connect(service)))
        held[0].settimeout(0.2)
        assert not gone(held[0])
    with service.client() as browser:
        assert browser.post("/enter", data={"link": link()}).status_code == 303


def test_another_address_has_fewer_than_this_host(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forwards of many people's ssh come from this host; nobody else has so many."""
    monkeypatch.setattr(connections, "_HERE", ())
    monkeypatch.setattr(connections, "MOST", 3)
    monkeypatch.setattr(connections, "SECONDS", 30.0)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(service))
        begun = time.monotonic()
        with contextlib.suppress(OSError):  # hung up on before TLS had begun
            assert gone(stack.enter_context(connect(service)))
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

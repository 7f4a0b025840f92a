"""Nobody keeps others out by opening connections and saying nothing: what nginx is told."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.dashboard_service import Running, connect, link, running
from tests.support.fake_prometheus import answering

pytestmark = pytest.mark.needs("nginx")


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    quick = {f"client_{part}_timeout 10s": f"client_{part}_timeout 1s" for part in ("header", "body")}
    with running(tmp_path_factory.mktemp("dashboard"), nginx=quick) as found:
        yield found


def gone(channel: ssl.SSLSocket) -> bool:
    """Whether the other end hangs up (within a minute)."""
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
        assert time.monotonic() - begun < 20, "it is a longer bound that ended it"


def test_one_byte_after_the_other_is_no_way_around_it(service: Running) -> None:
    with connect(service) as channel, contextlib.suppress(OSError):
        end = time.monotonic() + 20  # all of it takes 50 s
        for byte in b"GET /enter HTTP/1.1\r\nX-A: " + b"a" * 1000:
            channel.sendall(bytes([byte]))
            time.sleep(0.05)  # slower than anybody, and never silent
            if time.monotonic() > end:
                pytest.fail("it waits")


def test_who_is_silent_keeps_nobody_out(tmp_path: Path) -> None:
    """Where there are more than there is room for, the oldest of the silent ones go; and nothing else does."""
    few = {"worker_connections 2048": "worker_connections 64"}
    with running(tmp_path, nginx=few) as service, contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), 10))
        with service.client() as browser:
            assert browser.post("/enter", data={"link": link()}).status_code == 303


def test_one_address_has_so_many_requests_under_way(tmp_path: Path) -> None:
    """Else what waits for a slow Prometheus would take all of the application's."""
    with answering() as slow:
        slow.seconds = 3.0
        few = {"limit_conn requests 256": "limit_conn requests 4"}
        with (
            running(tmp_path, access={"prometheus": slow.port}, nginx=few) as service,
            service.client() as browser,
            ThreadPoolExecutor(8) as pool,
        ):
            found = list(pool.map(lambda _: browser.get("/status"), range(8)))
    assert sorted(answer.status_code for answer in found) == [200] * 4 + [429] * 4
    refused = next(answer for answer in found if answer.status_code == 429)
    assert "Try again in a minute" in refused.text
    assert "잠시 후" in refused.text


def test_one_address_asks_so_often(tmp_path: Path) -> None:
    few = {"rate=50r": "rate=1r", "burst=500": "burst=5"}
    with running(tmp_path, nginx=few) as service, service.client() as browser:
        answers = [browser.get("/static/icon.svg").status_code for _ in range(40)]
    assert answers[:6] == [200] * 6
    assert 429 in answers


def test_no_link_is_in_the_journal(tmp_path: Path) -> None:
    """What nginx refuses, and what it cannot pass on, it would write with the address that was asked for."""
    with running(tmp_path, nginx={"burst=500": "burst=2"}) as service, service.client() as browser:
        for _ in range(10):
            browser.get("/enter", params={"link": "THE-LINK"})
        (tmp_path / "app.sock").unlink()
        time.sleep(0.2)  # until it may ask again
        assert browser.get("/enter", params={"link": "THE-LINK"}).status_code == 502
        said = service.said.read_text().splitlines()
        assert [line for line in said if '"user" directive' not in line] == []  # what nginx says to whoever is not root


def test_a_head_without_end_is_refused(service: Running) -> None:
    with connect(service) as channel:
        with contextlib.suppress(OSError):
            channel.sendall(b"GET /enter HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 1_000_000)
        try:
            answer = channel.recv(100)
        except OSError:
            answer = b""
        assert answer == b"" or b" 400 " in answer

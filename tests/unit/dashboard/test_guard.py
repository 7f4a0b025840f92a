"""What holds for every page: by which name it is asked, and what a browser may do with it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.staticfiles import StaticFiles

from gpuadmin.dashboard import guard
from tests.support.dashboard_service import Running, connect, link, running

pytestmark = pytest.mark.needs("nginx")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


@pytest.mark.parametrize("host", ["monitor.example", "MONITOR.example:9443", "localhost", "127.0.0.1:1", "[::1]:9443"])
def test_names_under_which_it_is_asked(host: str, service: Running) -> None:
    with service.client(headers={"Host": host}) as browser:
        assert browser.get("/enter").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "monitor.example.evil.example",
        "",
        "10.0.0.1",
        "[::2]",
        "localhost.",
        "monitor.example@evil",
        "localhost:x@evil.example",
        "localhost:1/evil",
        "[::1",
        "[::1]x",
        "[::1]:x",
        "localhost:123456",
    ],
)
def test_other_names_are_refused(host: str, service: Running) -> None:
    """Else a page from elsewhere, whose name means this host for a moment, could read what is shown here."""
    with service.client(headers={"Host": host}) as browser:
        answer = browser.post("/enter", data={"link": link()})
        assert answer.status_code in (400, 421)
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("second", ["evil.example", "monitor.example"])
@pytest.mark.holds("a request names the dashboard once")
def test_a_request_with_two_names_is_refused(second: str) -> None:
    """nginx passes on none; what is made of the name must not depend on which of two somebody reads."""
    sent: list[Any] = []

    async def nothing(*_asked: object) -> Any:
        raise AssertionError("a page is asked")

    async def send(message: Any) -> None:
        sent.append(message)

    class Nobody:
        def viewer(self, _request: object) -> None:
            return None

    names = [(b"host", b"monitor.example"), (b"host", second.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": names}
    access: Any = Nobody()
    asyncio.run(guard.Guard(nothing, access, frozenset(["monitor.example"]))(scope, nothing, send))
    assert sent[0]["status"] == 421


@pytest.mark.parametrize("path", ["/", "/enter", "/enter?link=x", "/static/enter.css", "/nothing", "/status", "/leave"])
def test_what_browsers_are_told(path: str, service: Running) -> None:
    with service.client() as browser:
        told = browser.get(path).headers
    assert told["x-content-type-options"] == "nosniff"
    assert told["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in told["content-security-policy"]
    if path != "/status":
        assert told["content-security-policy"].split("; ")[:3] == [
            "default-src 'self'", "base-uri 'none'", "form-action 'self'",
        ]  # fmt: skip
    assert told["x-frame-options"] == "DENY"
    assert told["cross-origin-opener-policy"] == told["cross-origin-resource-policy"] == "same-origin"
    assert "unsafe" not in told["content-security-policy"] or path == "/status"
    assert "cache-control" in told
    assert told["server"] == "nginx", "without its version"


def test_nothing_that_is_somebodys_is_kept(service: Running) -> None:
    with service.client() as browser:
        browser.post("/enter", data={"link": link()})
        assert browser.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["%00", "a" * 300, "%ff", "..%5c", "a/" * 900], ids=lambda one: one[:8])
def test_a_name_that_no_file_has_is_not_there(name: str, service: Running) -> None:
    with service.client() as browser:
        assert browser.get(f"/static/{name}").status_code in (400, 404)


@pytest.mark.parametrize("problem", [ValueError("embedded null byte"), OSError(36, "File name too long")])
def test_nor_with_an_older_starlette(problem: Exception, service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*_: object) -> None:
        raise problem

    monkeypatch.setattr(StaticFiles, "get_response", lookup)
    with service.client() as browser:
        assert browser.get("/static/x").status_code == 404


def test_two_hosts_are_none(service: Running) -> None:
    with connect(service) as channel:
        channel.sendall(b"GET /enter HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert channel.recv(100).split(b" ")[1] in (b"400", b"421")


def test_there_is_no_unencrypted_page(service: Running) -> None:
    answer = httpx.get(f"http://127.0.0.1:{service.port}/enter", timeout=10)
    assert (answer.status_code, "HTTPS port" in answer.text) == (400, True)


def test_names_of_hosts() -> None:
    assert [guard._parse_host_name(one) for one in ("A.b:1", "[::1]:2", "[::1]", "", "a:b:c")] == [
        "a.b",
        "::1",
        "::1",
        "",
        "",
    ]


def test_files_outside_of_the_pages_are_not_served(service: Running) -> None:
    with service.client() as browser:
        for path in ("/static/../dashboard.json", "/static/%2e%2e/%2e%2e/dashboard.json", "/static//etc/passwd"):
            answer = browser.get(path)
            assert "root:" not in answer.text
            assert "entrance" not in answer.text

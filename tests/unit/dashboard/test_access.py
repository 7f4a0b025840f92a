"""The access, behind a real nginx: one link, one button, one session; and everybody who does not come in."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

from gpuadmin.common import tokens
from gpuadmin.dashboard import access
from gpuadmin.dashboard.__main__ import FILES
from gpuadmin.dashboard.files import DashboardError
from gpuadmin.dashboard.sign_in import parse_sign_in
from gpuadmin.dashboard.used_tokens import UsedTokens
from gpuadmin.dashboard.viewer import Viewer
from tests.support.dashboard_service import (
    ACCESS,
    PROXY,
    PROXY_SECRET,
    SECRET,
    Running,
    admin_link,
    link,
    running,
)

pytestmark = [pytest.mark.needs("nginx"), pytest.mark.holds("a stranger with the proxy's header is refused")]
NAMED = {"X-Remote-User": "minji", access.SECRET_HEADER: PROXY_SECRET}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


@pytest.fixture
def browser(service: Running) -> Iterator[httpx.Client]:
    with service.client() as found:
        yield found


def enter(browser: httpx.Client, text: str, **headers: str) -> httpx.Response:
    return browser.post("/enter", data={"link": text}, headers=headers)


def test_a_link_is_looked_at_twice_and_followed_once(service: Running, browser: httpx.Client) -> None:
    text = link()
    for _ in range(2):  # a chat that shows a preview, then the person
        seen = browser.get("/enter", params={"link": text})
        assert (seen.status_code, "set-cookie" in seen.headers) == (200, False)
        assert "<strong>minji</strong>" in seen.text
        assert "대시보드 열기" in seen.text
        assert "Open the dashboard" in seen.text
    came = enter(browser, text)
    assert (came.status_code, came.headers["location"]) == (303, "/")
    assert browser.get("/").status_code == 200
    with service.client() as other:
        again = enter(other, text)
        assert again.status_code == 403
        assert "used already" in again.text
        assert "set-cookie" not in again.headers
        assert "이미 사용한 링크입니다" in other.get("/enter", params={"link": text}).text
        assert other.get("/").status_code in (303, 401, 403)


def test_a_cookie_is_for_this_host_over_tls_and_no_script(browser: httpx.Client) -> None:
    (cookie,) = enter(browser, link()).headers.get_list("set-cookie")
    name, *attributes = cookie.lower().split("; ")
    assert name.startswith("__host-gpuadmin=session~node1~minji~")
    assert set(attributes) == {"httponly", "secure", "samesite=lax", "path=/", "max-age=43200"}


def test_a_restart_forgets_no_link_and_no_session(tmp_path: Path) -> None:
    text = link()
    with running(tmp_path) as first, first.client() as browser:
        assert enter(browser, text).status_code == 303
        cookies = dict(browser.cookies)
    with running(tmp_path) as second, second.client(cookies=cookies) as browser:
        assert "used already" in enter(browser, text).text
        assert browser.get("/").status_code == 200


def test_whoever_leaves_is_out_and_so_is_a_copy_of_the_cookie(service: Running, browser: httpx.Client) -> None:
    enter(browser, link())
    with service.client(cookies=dict(browser.cookies)) as copy:
        assert copy.get("/").status_code == 200
        left = browser.post("/leave")
        assert (left.status_code, left.headers["location"]) == (303, "/enter")
        assert not browser.cookies, "this browser has forgotten it"
        assert browser.get("/").status_code != 200
        assert copy.get("/").status_code != 200
    assert browser.post("/leave").status_code == 303, "whoever has no session has left already"


REFUSED = {
    "another name": lambda: link().replace("minji", "jiho"),
    "signed by a node that is none": lambda: link(signer="node9"),
    "an admin's, signed as a node": lambda: link(signer="node1", kind=tokens.ADMIN_LINK),
    "a person's, signed as the controller": lambda: link(signer=tokens.CONTROLLER),
    "a session as a link": lambda: link(kind=tokens.SESSION),
    "over": lambda: link(at=time.time() - 601),
    "from before what is remembered": lambda: link(at=time.time() - 599),
    "of tomorrow": lambda: link(at=time.time() + 86400),
    "cut": lambda: link()[:-3],
    "nothing": lambda: "",
    "markup": lambda: "<script>alert(1)</script>",
    "of two lines": lambda: f"{link()}\r\nSet-Cookie: a=b",
    "two in one": lambda: f"{link()}&link={link()}",
    "huge": lambda: link() + "0" * 100_000,
}


@pytest.mark.parametrize("name", REFUSED)
def test_nobody_comes_in_by_a_link_that_is(name: str, service: Running) -> None:
    with service.client() as browser:
        answer = enter(browser, REFUSED[name]())
        assert answer.status_code in (403, 413)
        assert "set-cookie" not in answer.headers
        assert "<script>" not in answer.text
        assert browser.get("/").status_code != 200


COOKIES = {
    "a link": link,
    "an admin's link": admin_link,
    "of a node's own making": lambda: tokens.sign(
        tokens.signing_key(SECRET, tokens.LINK, "node1"), tokens.SESSION, "node1", "minji", int(time.time())
    ),
    "an admin's, signed by a node": lambda: link(kind=tokens.ADMIN_SESSION),
    "over": lambda: link(kind=tokens.SESSION, at=time.time() - 12 * 3600 - 1),
    "of a node that has gone": lambda: link(kind=tokens.SESSION, signer="node9"),
    "cut": lambda: link(kind=tokens.SESSION)[:-1],
}


@pytest.mark.parametrize("name", COOKIES)
def test_no_session_is_a_cookie_that_is(name: str, service: Running) -> None:
    with service.client(cookies={access.COOKIE: COOKIES[name]()}) as browser:
        assert browser.get("/").status_code != 200


def test_the_controller_makes_admins(browser: httpx.Client) -> None:
    assert enter(browser, admin_link()).status_code == 303
    assert "admin-session~controller~yseong@desk~" in browser.cookies[access.COOKIE]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost"},
        {"Origin": "https://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_no_other_page_brings_somebody_in_or_out(headers: dict[str, str], browser: httpx.Client) -> None:
    text = link()
    assert enter(browser, text, **headers).status_code == 403
    assert enter(browser, text, **{"Sec-Fetch-Site": "same-origin"}).status_code == 303, "it was not spent"
    assert browser.post("/leave", headers=headers).status_code == 403
    assert browser.get("/").status_code == 200


def test_a_browser_says_where_its_form_comes_from(service: Running, browser: httpx.Client) -> None:
    assert enter(browser, link(), Origin=service.url).status_code == 303


@pytest.mark.parametrize("name", ["minji", "_a-b9", "a" * 32])
def test_names_of_people(name: str, browser: httpx.Client) -> None:
    assert enter(browser, link(name)).status_code == 303
    assert browser.get("/").status_code == 200


def test_there_is_no_open_redirect(browser: httpx.Client) -> None:
    for query in ("?next=https://evil.example", "?link=&next=//evil.example", "//evil.example"):
        assert "evil" not in browser.get(f"/enter{query}").headers.get("location", "")
    came = browser.post("/enter?next=https://evil.example", data={"link": link(), "next": "//evil.example"})
    assert came.headers["location"] == "/"


def test_a_signer_without_end_keeps_nobody_else_out(tmp_path: Path) -> None:
    now = int(time.time())
    (tmp_path / "state").mkdir()
    lines = [f"{now + 600} node1 {number:064x}\n" for number in range(1000)]
    (tmp_path / "state/spent").write_text("".join([f"{now}\n", *lines]))
    with running(tmp_path) as service, service.client() as browser:
        assert enter(browser, link()).status_code == 503
        assert browser.get("/").status_code != 200
        assert enter(browser, link(signer="node2")).status_code == 303


def test_a_person_without_end_keeps_nobody_else_of_their_node_out(tmp_path: Path) -> None:
    """Every link is theirs: the node signs twenty in a second for whoever asks."""
    with running(tmp_path) as service, service.client() as browser:
        assert [enter(browser, link()).status_code for _ in range(51)] == [303] * 50 + [503]
        assert enter(browser, link("jiho")).status_code == 303


def test_without_a_place_to_remember_nobody_comes_in(tmp_path: Path) -> None:
    with running(tmp_path) as service, service.client() as browser:
        (tmp_path / "state/spent").unlink()
        text = link()
        assert enter(browser, text).status_code == 503
        assert "set-cookie" not in enter(browser, text).headers


# -- the proxy


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("proxied"), access={"proxy": PROXY}) as found:
        yield found


def test_the_proxy_says_who_somebody_is(proxied: Running) -> None:
    with proxied.client(headers=NAMED) as browser:
        assert browser.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Remote-User": "minji"},
        {"x-remote-USER": "minji"},
        {"X-Remote-User": "minji", access.SECRET_HEADER: "wrong" * 5},
        {"X-Remote-User": "minji", access.SECRET_HEADER: ""},
        {"X-Remote-User": "", access.SECRET_HEADER: "wrong"},
        {**NAMED, "X-Remote-User": "Minji Kim"},
        {**NAMED, "X-Remote-User": "minji, jiho"},
        {**NAMED, "X-Remote-User": "root@desk"},
        {**NAMED, "X-Remote-User": "a" * 5000},
        [*NAMED.items(), ("X-Remote-User", "jiho")],
        [*NAMED.items(), (access.SECRET_HEADER, PROXY_SECRET)],
    ],
    ids=lambda one: str(one)[:60],
)
def test_nobody_else_does(proxied: Running, headers: dict[str, str]) -> None:
    with proxied.client() as browser:
        for path in ("/", "/enter", "/status"):
            assert browser.get(path, headers=headers).status_code == 403
        enter(browser, link())
        assert browser.get("/", headers=headers).status_code == 403, "a session does not make it better"
        assert browser.get("/").status_code == 200


def test_who_knows_the_secret_and_is_elsewhere_is_not_the_proxy(tmp_path: Path) -> None:
    elsewhere = {"proxy": {**PROXY, "addresses": ["192.0.2.7"]}}
    headers = {**NAMED, "X-Forwarded-For": "192.0.2.7"}
    with running(tmp_path, access=elsewhere) as service, service.client(headers=headers) as browser:
        assert browser.get("/").status_code == 403


def test_whom_the_proxy_does_not_know_needs_a_link(proxied: Running) -> None:
    with proxied.client(headers={access.SECRET_HEADER: PROXY_SECRET}) as browser:
        assert browser.get("/").status_code != 200
        enter(browser, link())
        assert browser.get("/").status_code == 200


# -- without a server


class Door:
    """The access itself."""

    def __init__(self, at: Path) -> None:
        found, now = parse_sign_in({**ACCESS, "proxy": PROXY}), time.time()
        self.access = access.Access(
            found, SECRET, UsedTokens(str(at / "spent"), now), nodes=("node1", "node2"), cluster="lab <b>",
            files=FILES, proxy_secret=PROXY_SECRET,
        )  # fmt: skip

    def request(self, peer: str = "127.0.0.1", **headers: str) -> Request:
        raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        return Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw,
                        "client": (peer, 1)})  # fmt: skip

    def viewer(self, **headers: str) -> Viewer | None:
        return self.access.viewer(self.request(**headers))


@pytest.mark.parametrize(
    ("name", "cookie"),
    [("minji", lambda: link(kind=tokens.SESSION)),
     ("yseong@desk", lambda: link("yseong@desk", tokens.CONTROLLER, kind=tokens.ADMIN_SESSION))],
)  # fmt: skip
def test_a_session_makes_an_admin_of_admins_alone(tmp_path: Path, name: str, cookie: Callable[[], str]) -> None:
    admin = "@" in name
    assert Door(tmp_path).viewer(cookie=f"{access.COOKIE}={cookie()}") == Viewer(name, admin)


@pytest.mark.parametrize(("name", "admin"), [("minji", False), ("yseong", True)])
def test_the_proxy_makes_an_admin_of_those_whom_the_site_names(tmp_path: Path, name: str, admin: bool) -> None:
    found = Door(tmp_path).viewer(x_remote_user=name, x_gpuadmin_proxy_secret=PROXY_SECRET)
    assert found == Viewer(name, admin)


def test_a_proxy_without_a_secret_is_none(tmp_path: Path) -> None:
    found = parse_sign_in({**ACCESS, "proxy": PROXY})
    for secret in ("", "short"):
        with pytest.raises(DashboardError, match="fewer than 16"):
            access.Access(found, SECRET, UsedTokens(str(tmp_path / "spent"), 1.0), nodes=(), cluster="x",
                          files=FILES, proxy_secret=secret)  # fmt: skip


def test_a_link_is_spent_for_as_long_as_it_could_be_taken(tmp_path: Path, browser: httpx.Client) -> None:
    """A clock that is set back by a minute makes no link good a second time; nor does a restart meanwhile."""
    with running(tmp_path) as service, service.client() as other:
        assert enter(other, link(at=time.time())).status_code == 303
        (_since, line) = (tmp_path / "state/spent").read_text().splitlines()
        assert int(line.split()[0]) >= time.time() + 600 + tokens.SKEW - 60
        assert other.post("/leave").status_code == 303
        last = (tmp_path / "state/spent").read_text().splitlines()[-1]
        assert int(last.split()[0]) >= time.time() + 12 * 3600 + tokens.SKEW - 60


def test_a_form_is_bounded(service: Running, browser: httpx.Client) -> None:
    text = link()
    assert browser.post("/enter", data={"link": text, "more": "x" * 5000}).status_code == 413
    assert enter(browser, text).status_code == 303, "it was not even looked at"


def test_what_the_cluster_is_called_is_text(browser: httpx.Client) -> None:
    assert "<b>" not in browser.get("/enter").text

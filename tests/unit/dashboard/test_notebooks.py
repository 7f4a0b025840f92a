"""Notebooks: nobody reaches another's, and none of them reaches the dashboard. nginx, the dashboard, a node's front."""

import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import notebook_front

from gpuadmin.common import tokens
from gpuadmin.monitoring import certificates
from tests.support.dashboard_service import PROXY, PROXY_SECRET, SITE_SECRET, admin_link, link
from tests.support.notebook_scene import UIDS, Scene, scene

pytestmark = pytest.mark.root  # people's servers run as them
MINE = "/node1/minji/17/lab"


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("scene"), access={"proxy": PROXY}) as found:
        found.serve("minji", "17")
        found.serve("jiho", "18")
        yield found


def test_a_person_gets_to_their_own_and_takes_nothing_along(notebooks: Scene) -> None:
    minji = notebooks.browser("minji")
    answer = notebooks.get(minji, f"{MINE}?a=%2e%2e/b", Authorization="token x", X_Forwarded_For="9.9.9.9", X_Odd="1")
    assert answer.status_code == 200
    said = answer.json()
    assert said["uid"] == UIDS["minji"]
    first, *headers = said["head"].strip().split("\r\n")
    assert first == f"GET {MINE}?a=%2e%2e/b HTTP/1.1"
    assert {line.partition(":")[0].lower() for line in headers} <= {
        "host", "connection", "accept", "accept-encoding", "user-agent",
    }  # fmt: skip
    assert "gpuadmin" not in said["head"].partition("\r\n")[2]
    # nothing of a notebook's stays in the browser, and no page from elsewhere frames it
    assert (answer.headers.get("set-cookie"), answer.headers.get("clear-site-data")) == (None, None)
    assert answer.headers["content-security-policy"] == "frame-ancestors 'self'"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize(
    "path",
    [
        "/node1/jiho/18/lab",  # another's
        "/node1/jiho/17/lab",
        "/node1/jiho/18/../../minji/17/lab",
        "/node1/jiho/18/..%2f..%2fminji/17/lab",
        "/node1/nobody/17/lab",
    ],
)
@pytest.mark.holds("a notebook is its person's alone, and an admin's name from the controller is nobody's here")
def test_anothers(path: str, notebooks: Scene) -> None:
    assert status(notebooks, path).split()[1] == "403"


@pytest.mark.parametrize("path", ["proxy/9999/", "proxy/9999", "proxy/absolute/9999/x", "proxy/127.0.0.1:9999/",
                                  "proxy/9999/..%2f..%2flab", "lab/proxy/9999/"])  # fmt: skip
def test_a_port_of_the_node_is_no_part_of_a_notebook(path: str, notebooks: Scene) -> None:
    """jupyter-server-proxy would lead there: whoever listens on it would have a page that does what its reader may."""
    assert status(notebooks, f"/node1/minji/17/{path}").split()[1] == ("200" if path.startswith("lab") else "403")


def test_what_follows_the_job_is_the_notebooks_to_read(notebooks: Scene) -> None:
    """It was sent to minji's, whatever it says."""
    assert status(notebooks, "/node1/minji/17/../../jiho/18/lab").split()[1] == "200"


@pytest.mark.parametrize(
    "path",
    [
        "/", "/node1", "/node1/minji/lab", "/node1/minji/0/lab", "/node1/minji/17", "//node1/minji/17/lab",
        "/node2/minji/17/lab",  # not a node of the list
        "/127.0.0.1/minji/17/lab", "/node1:22/minji/17/lab", "/node1@evil/minji/17/lab", "/%6eode1/minji/17/lab",
        "/node1/./minji/17/lab", "/node1/minji%2f17/lab", "/.allowed", "/notebook-allowed", "/node1/Minji/17/lab",
    ],
)  # fmt: skip
def test_addresses_that_are_none(path: str, notebooks: Scene) -> None:
    """Raw, as a browser would not send them."""
    assert status(notebooks, path).split()[1] == "404"


def status(notebooks: Scene, path: str, *lines: str) -> str:
    """The first line of an answer to minji, whose browser sends exactly these lines."""
    cookie = notebooks.browser("minji").cookies["__Host-gpuadmin"]
    context = ssl.create_default_context(cadata=certificates.web_authority(SITE_SECRET))
    with (
        socket.create_connection(("127.0.0.1", notebooks.port), 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        given = lines or (f"Host: localhost:{notebooks.port}",)
        head = [f"GET {path} HTTP/1.1", *given, f"Cookie: __Host-gpuadmin={cookie}", "Connection: close"]
        secure.sendall("\r\n".join([*head, "", ""]).encode())
        answer = b""
        while part := secure.recv(65536):
            answer += part
    return answer.decode("latin-1").partition("\r\n")[0]


def test_whom_nobody_let_in(notebooks: Scene) -> None:
    answer = notebooks.get(notebooks.browser(None), MINE)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{notebooks.board.url}/enter")
    stale = notebooks.browser(None)
    stale.cookies.set("__Host-gpuadmin", "session~node1~minji~1~00~00", domain="localhost.local")
    assert notebooks.get(stale, MINE).status_code == 303


@pytest.mark.holds("a notebook is its person's alone, and an admin's name from the controller is nobody's here")
def test_an_admin_has_no_way_in(notebooks: Scene) -> None:
    """Whoever calls their account at the controller minji is not minji."""
    named = link("minji", tokens.CONTROLLER, kind=tokens.ADMIN_LINK)
    for text in (admin_link(), named):
        assert notebooks.get(notebooks.browser("", text), MINE).status_code == 403


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}, 200),
        ({"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
        # from the dashboard's page
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "websocket", "Sec_Fetch_Dest": "websocket"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://localhost:{port}"}, 200),
        ({"Origin": "https://localhost:{port}.evil.example"}, 403),
        ({"Origin": "https://localhost:{port} https://localhost:{port}"}, 403),
    ],
    ids=str,
)
def test_pages_from_elsewhere(headers: dict[str, str], expected: int, notebooks: Scene) -> None:
    given = {name: value.format(port=notebooks.port) for name, value in headers.items()}
    assert notebooks.get(notebooks.browser("minji"), MINE, **given).status_code == expected


def test_a_form_from_the_dashboards_site(notebooks: Scene) -> None:
    given = {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert notebooks.get(notebooks.browser("minji"), MINE, "POST", **given).status_code == 403


def test_the_dashboard_takes_no_form_of_a_notebook(notebooks: Scene) -> None:
    """A notebook's page is of the same site, and so has the cookie; its origin is another one."""
    minji = notebooks.browser("minji")
    for headers in ({"Origin": f"https://localhost:{notebooks.port}"}, {"Sec-Fetch-Site": "same-site"}):
        assert minji.post("/leave", headers=headers).status_code == 403
    assert minji.get("/status").status_code == 200


@pytest.mark.parametrize(
    "lines",
    [
        ("Host: evil.example",),  # a name that somebody else has pointed here
        ("Host: localhost", "X-Remote-User: jiho"),
        ("Host: localhost", "X-Remote-User: minji", "X-Gpuadmin-Proxy-Secret: guessed"),
        ("Host: localhost", "Host: localhost"),
    ],
)
def test_names_that_are_not_ours(lines: tuple[str, ...], notebooks: Scene) -> None:
    assert status(notebooks, MINE, *lines).split()[1] in ("400", "403", "500")


def test_headers_that_name_somebody(notebooks: Scene) -> None:
    """nginx alone says whose notebook is asked for, and the site's proxy who asks; neither goes on."""
    host = "Host: localhost"
    assert status(notebooks, MINE, host, "X-Gpuadmin-Notebook: jiho").split()[1] == "200"
    assert status(notebooks, "/node1/jiho/18/lab", host, "X-Gpuadmin-Notebook: minji").split()[1] == "403"
    minji = notebooks.browser(None)
    given = {"X_Remote_User": "minji", "X_Gpuadmin_Proxy_Secret": PROXY_SECRET}
    answer = notebooks.get(minji, MINE, **given)
    assert answer.status_code == 200
    assert "minji" not in answer.json()["head"].partition("\r\n")[2]
    assert "secret" not in answer.json()["head"].lower()


@pytest.mark.holds("a directory that somebody else has put there is passed over")
def test_a_socket_that_another_has_planted(notebooks: Scene) -> None:
    """jiho is first with a directory of minji's job, and again with a link to his own."""
    planted = notebooks.directory("jiho", "31", "a")
    notebooks.run("jiho", str(planted / "socket"))
    minji = notebooks.browser("minji")
    assert notebooks.get(minji, "/node1/minji/31/lab").status_code == 502
    (notebooks.place / "gpuadmin-notebook-32-a").symlink_to(planted)
    os.lchown(notebooks.place / "gpuadmin-notebook-32-a", UIDS["minji"], UIDS["minji"])
    assert notebooks.get(minji, "/node1/minji/32/lab").status_code == 502
    notebooks.serve("minji", "31")
    assert notebooks.get(minji, "/node1/minji/31/lab").json()["uid"] == UIDS["minji"]


@pytest.mark.holds("what answers is the person's own, wherever their socket leads")
def test_a_link_to_anothers_socket(notebooks: Scene) -> None:
    """The front may connect to every socket of the node; a person cannot make it connect to jiho's for them."""
    mine = notebooks.directory("minji", "41")
    theirs = notebooks.place / "gpuadmin-notebook-18-x/socket"
    assert theirs.is_socket()
    (mine / "socket").symlink_to(theirs)
    assert notebooks.get(notebooks.browser("minji"), "/node1/minji/41/lab").status_code == 502


def test_a_job_that_has_ended_while_its_page_is_open(notebooks: Scene) -> None:
    path = notebooks.directory("minji", "51")
    process = notebooks.run("minji", str(path / "socket"))
    minji = notebooks.browser("minji")
    assert notebooks.get(minji, "/node1/minji/51/lab").status_code == 200
    process.kill()
    process.wait()
    answer = notebooks.get(minji, "/node1/minji/51/lab")
    assert (answer.status_code, answer.headers["refresh"]) == (502, "5")
    assert "has ended" in answer.text
    assert "끝났습니다" in answer.text


@pytest.mark.holds("only the monitor host asks for notebooks")
def test_the_front_answers_to_the_monitor_host_alone(notebooks: Scene) -> None:
    """Not to somebody on the node who finds its port, nor to another node's root with that node's certificate."""
    files = notebooks.board.directory
    node = certificates.exporter(SITE_SECRET, "node2", "127.0.0.1")
    (files / "node2.pem").write_text(node.certificate + node.key)
    authority = certificates.authority(SITE_SECRET)
    url = f"https://127.0.0.1:{notebooks.front}{MINE}"
    for own in (None, str(files / "node2.pem")):
        context = ssl.create_default_context(cadata=authority)
        if own:
            context.load_cert_chain(own)
        with pytest.raises(httpx.HTTPError), httpx.Client(verify=context, timeout=20) as client:
            client.get(url, headers={"connection": "close"})
    context = ssl.create_default_context(cadata=authority)
    context.load_cert_chain(files / "credentials/asking-certificate", files / "credentials/asking-key")
    with httpx.Client(verify=context, timeout=20) as client:
        assert client.get(url, headers={"connection": "close"}).json()["uid"] == UIDS["minji"]


def test_a_node_that_is_not_the_one(tmp_path: Path) -> None:
    """Whoever answers at a node's address needs that node's certificate."""
    with scene(tmp_path, {"node1 127.0.0.1;": "node1 127.0.0.1;\n        node2 127.0.0.1;"}) as found:
        found.serve("minji", "17")
        minji = found.browser("minji")
        assert found.get(minji, MINE).status_code == 200
        assert found.get(minji, MINE.replace("node1", "node2")).status_code == 502


@pytest.mark.holds("a link leads nowhere else")
def test_a_link_leads_to_a_notebook(notebooks: Scene) -> None:
    minji = notebooks.browser(None)
    text = link("minji")
    page = minji.get("/enter", params={"link": text, "notebook": "node1/17"})
    assert 'name="notebook" value="node1/17"' in page.text
    entered = minji.post("/enter", data={"link": text, "notebook": "node1/17"})
    assert entered.headers["location"] == "/notebooks/node1/17"
    page = minji.get("/notebooks/node1/17")
    assert f"url=https://localhost:{notebooks.port}/node1/minji/17/lab" in page.text
    phone = minji.get("/notebooks/node1/17", headers={"User-Agent": "Mozilla/5.0 (iPhone) Mobile/15E148"})
    assert f"url=https://localhost:{notebooks.port}/node1/minji/17/tree" in phone.text
    assert minji.get("/notebooks/nowhere/17").status_code == 404
    for odd in ("//evil.example", "node1/17/../..", "node1/0", "https://evil.example/1"):
        other = notebooks.browser(None)
        entered = other.post("/enter", data={"link": link("minji"), "notebook": odd})
        assert (entered.status_code, entered.headers["location"]) == (303, "/"), odd


@pytest.mark.holds("one person's connections leave room for others'")
def test_one_person_with_very_many_connections(notebooks: Scene) -> None:
    minji, jiho = notebooks.browser("minji"), notebooks.browser("jiho")
    assert notebooks.get(minji, MINE).status_code == 200
    counted = notebooks.leading.open
    end = time.monotonic() + 20
    while +counted != Counter():
        assert time.monotonic() < end, "what has ended does not count"
        time.sleep(0.01)  # it ends in another thread
    counted[UIDS["minji"]] = notebook_front.MOST
    try:
        assert notebooks.get(minji, MINE).status_code == 502
        assert notebooks.get(jiho, "/node1/jiho/18/lab").status_code == 200
    finally:
        counted.clear()

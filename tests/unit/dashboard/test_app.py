"""The pages of the real application, from a real Prometheus, by who looks."""

import json
import re
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from gpuadmin.common.cluster import Device, Node
from gpuadmin.common.prometheus import Series
from gpuadmin.dashboard import app, pages
from gpuadmin.dashboard.files import DashboardError
from gpuadmin.dashboard.plots import node_plots
from gpuadmin.dashboard.prometheus import Asked, Prometheus
from tests.support.dashboard_app import OpenAccess, Scene, board, get, plain, rows, settings
from tests.support.dashboard_scene import HOSTILE, NODES, PEOPLE
from tests.support.prometheus import free_port

pytestmark = pytest.mark.needs("prometheus", "promtool")
NODE_PAGES = [f"/nodes/{name}" for name in (*NODES, "gpu07")]
PAGES = ("/", "/free", "/given", "/people", "/me", "/free?gpus=2&memory=40", *NODE_PAGES)
DATA = ("/data/cluster", *(f"/data/nodes/{name}" for name in NODES))
WITHIN: dict[str, tuple[Series, ...]] = dict.fromkeys(("received", "sent", "read", "written"), ())
CONTAINERS = ("train-llm", "notebook", "eval", "class", "script", "gnp.exe")


@pytest.fixture
def everybody(scene: Scene) -> Iterator[TestClient]:
    with scene.client() as client:
        yield client


def test_one_glance(everybody: TestClient) -> None:
    status, html = get(everybody, "/")
    assert status == 200
    assert "4 of 7 nodes are up. 7 of 18 GPUs are free. Nobody knows whether 4 are held." in plain(html)
    nodes = rows(html)
    for part in (
        r"● up up for 3 d 4 × NVIDIA H100 80GB HBM3 : 1 free · 3 held ■ GPU 0 97 % 61 of 80 GiB minji ■ GPU 1",
        r"■ GPU 1 95 % 61 of 80 GiB doyun minji ■ GPU 2 0 % 20 of 80 GiB jiho □ GPU 3 0 % 0 of 80 GiB free 22 % 112 of",
    ):
        assert part in nodes["gpu01"]
    assert "Host memory" in nodes["Node"]
    assert "Free now: 5 × NVIDIA H100 80GB HBM3 , 2 × MIG 2g.20gb" in plain(html)
    assert "■ GPU 0.0 – 11 of 20 GiB doyun MIG 2g.20gb" in nodes["gpu03"], "models of a node that has several"
    assert "73 °C" in nodes["gpu01"]
    assert re.search(r"5 free · 1 held · 1 lost", nodes["gpu03"]), "a divided GPU is its devices"
    assert "a GPU is too hot" in nodes["gpu03"]
    assert "93 % /local" in nodes["gpu03"], "the disk that is fullest"
    assert "4 unknown ? GPU 0 0 % 0 of 80 GiB unknown" in nodes["gpu04"], "who holds what is not known there"
    assert "who holds its GPUs is not known" in nodes["gpu04"]
    assert re.search(r"▼ down last seen 9[0-9] min ago", nodes["gpu05"])
    assert re.search(r"◆ not measured last seen 1[5-9] min ago", nodes["gpu06"])
    assert "? unknown" in nodes["gpu07"]
    assert "Power is cut on Friday" in html
    assert "Not yet" not in html, "an announcement of tomorrow"


def test_a_node(everybody: TestClient) -> None:
    _, html = get(everybody, "/nodes/gpu01")
    text = plain(html)
    assert re.search(r"GPU 0 NVIDIA H100 80GB HBM3 ■ minji train-llm for 5 h 97 % 76 % 61 of 80 GiB 73 °C 633 W", text)
    assert re.search(r"GPU 1 .*■ doyun eval for 1[5-9] min ■ minji train-llm for 5 h", text), "two on one GPU"
    assert re.search(r"GPU 2 .*■ jiho notebook for 9 h ", text)
    assert re.search(r"not used for 6 h or longer", text)
    assert re.search(r"GPU 3 NVIDIA H100 80GB HBM3 □ free", text)
    _, divided = get(everybody, "/nodes/gpu03")
    text = plain(divided)
    assert re.search(r"GPU 0 NVIDIA H100 80GB HBM3 ◫ divided \(MIG\) – ", text)
    assert re.search(r"GPU 0\.0 MIG 2g\.20gb ■ doyun class for 4[0-9] min – ", text), "its use is not known"
    assert "slowed down: heat" in text
    assert re.search(r"GPU 4 ✕ does not answer ", text)
    assert re.search(r"GPU 4 ✕ 응답하지 않습니다 ", plain(get(everybody, "/nodes/gpu03?lang=ko")[1]))


def test_a_person_and_their_hints(everybody: TestClient) -> None:
    _, html = get(everybody, "/people/jiho", "jiho")
    assert "gpu01, GPU 2: held and not used for 6 hours or longer" in html
    assert "45 GiB" in html
    _, html = get(everybody, "/people/seoyeon", "seoyeon")
    assert re.search(r"gpu02, GPU 0: it worked 18 % of the last 15 minutes .* data loader", html)
    _, html = get(everybody, "/people/minji", "minji")
    assert "data loader" not in html
    assert re.search(r"the last 7 days (9\.9|10\.0) h 9\.[78] h 0\.[123] h 9[89] %", plain(html)), plain(html)


def test_everybodys_week(everybody: TestClient) -> None:
    """Beside who holds what now, what was held and used in seven days; what is not known is not 0."""
    found = rows(get(everybody, "/people", "haeun")[1])
    assert re.fullmatch(r"minji 2 0 (9\.9|10\.0) h 9\.[78] h", found["minji"]), found
    assert re.fullmatch(r"jiho 1 1 (8\.9|9\.0) h 0\.0 h", found["jiho"]), found
    assert re.fullmatch(r"mallory 1 0 1\.1 h –", found["mallory"]), "whether it was used is not known"
    assert found["doyun"] == "doyun 2 0 – –", "who holds something has not held nothing"
    assert found["haeun"] == "haeun 0 0 0.0 h 0.0 h"
    assert re.fullmatch(r"yuna 0 0 (1\.9|2\.0) h (1\.9|2\.0) h", found["yuna"]), "who is logged in nowhere now"
    assert get(everybody, "/people/yuna")[0] == get(everybody, "/data/people/yuna")[0] == 200
    assert list(found)[1:] == ["minji", "doyun", "jiho", "seoyeon", "mallory", "yuna", "haeun"], (
        "and the admin is nobody"
    )
    assert "(unknown)" not in found
    theirs = plain(get(everybody, "/people/mallory", "haeun")[1])
    assert "the last 7 days 1.1 h – – –" in theirs, "the same on their page"


def test_the_people_are_there_without_their_week(everybody: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Asked.now

    async def without(self: Asked, query: str, *rest: Any, **more: Any) -> Any:
        if "[7d]" in query:
            raise DashboardError("too many samples")
        return await real(self, query, *rest, **more)

    monkeypatch.setattr(Asked, "now", without)
    status, html = get(everybody, "/people")
    assert (status, rows(html)["minji"]) == (200, "minji 2 0 – –")
    assert "Some measurements are missing" in html


def test_nobody_waits_long_for_everybodys_week(everybody: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked on, and is there for who comes later."""
    real, asked, over = Prometheus.ask, list[str](), threading.Event()

    def slow(self: Prometheus, query: str) -> Any:
        if "[7d]" in query:
            asked.append(query)
            over.wait(60)  # as a Prometheus with much to add up
        return real(self, query)

    monkeypatch.setattr(Prometheus, "ask", slow)
    monkeypatch.setattr(app, "_PATIENCE", 0.2)
    assert rows(get(everybody, "/people")[1])["minji"] == "minji 2 0 – –", "it waited until there was an answer"
    over.set()
    deadline = time.monotonic() + 20
    while "– –" in rows(get(everybody, "/people")[1])["minji"] and time.monotonic() < deadline:
        time.sleep(0.05)  # until it was answered
    assert re.fullmatch(r"minji 2 0 [0-9.]+ h [0-9.]+ h", rows(get(everybody, "/people")[1])["minji"])
    assert len(asked) == 1


def test_who_shares_a_gpu_is_the_same_on_both_pages(everybody: TestClient) -> None:
    """On one's own page as on the node's."""
    for path in ("/people/minji", "/nodes/gpu01"):
        text = plain(get(everybody, path, "minji")[1])
        assert re.search(r"GPU 1 .*■ doyun eval for .* ■ minji train-llm", text), path


def test_what_is_private_is_seen_by_admins_and_oneself(everybody: TestClient) -> None:
    for viewer, sees in (("jiho", True), ("root admin", True), ("minji", False)):
        _, html = get(everybody, "/people/jiho", viewer)
        assert ("Only you and the admins" in html) is sees
        assert ("held and not used for 6 hours" in html) is sees
        assert ("45 GiB" in html) is sees


def test_where_to_run(everybody: TestClient) -> None:
    _, html = get(everybody, "/free?gpus=2&memory=40")
    assert set(rows(html)) - {"Node"} == {"gpu03"}
    _, html = get(everybody, "/free")
    assert [name for name in rows(html) if name != "Node"] == ["gpu01", "gpu02", "gpu03"], "the fullest first"
    _, html = get(everybody, "/free?gpus=64")
    assert "No node has that many free now." in html
    assert "gpu04, gpu05, gpu06, gpu07" in html, "what is not known"


@pytest.mark.parametrize(
    "query", ["gpus=0", "gpus=65", "gpus=x", "gpus=-1", "memory=1001", "memory=1e9", "gpus=²", "gpus=" + "9" * 5000]
)
def test_a_wrong_number_says_which(everybody: TestClient, query: str) -> None:
    status, html = get(everybody, f"/free?{query}")
    assert status == 400
    assert ("GPUs on one node: must be" if query.startswith("gpus") else "GiB free on each: must be") in html


@pytest.mark.holds("whom nobody knows has no page")
def test_whom_nobody_knows_is_no_person(everybody: TestClient) -> None:
    """What holds a GPU and is nobody's without doubt is shown where it is, and has no page, row or plot."""
    assert "(unknown)" not in get(everybody, "/people", "root admin")[1]
    for viewer in ("root admin", "minji"):
        assert get(everybody, "/people/(unknown)", viewer)[0] == 404
        assert get(everybody, "/data/people/(unknown)", viewer)[0] == 404
    html = get(everybody, "/nodes/gpu02", "root admin")[1]
    assert re.search(r"GPU 3 NVIDIA H100 80GB HBM3 ■ unknown for", plain(html))
    assert "/people/%28unknown%29" not in html


def test_who_holds_nothing_has_a_page_of_their_own(everybody: TestClient) -> None:
    """Nobody has told the dashboard of haeun, of whom nothing is measured. Nobody learns who has an account."""
    status, html = get(everybody, "/me")
    assert (status, "Only you and the admins" in html) == (200, True)
    assert get(everybody, "/data/people/haeun")[0] == 200
    assert 'href="/people/haeun"' in get(everybody, "/people")[1]
    for viewer in ("minji", "root admin"):
        found = get(everybody, "/people/haeun", viewer)
        assert (found[0], found) == (404, get(everybody, "/people/whoever", viewer))
        assert get(everybody, "/data/people/haeun", viewer) == (404, '{"error":"not found"}')
    assert get(everybody, "/me", "root admin") == get(everybody, "/", "root admin")


@pytest.mark.parametrize("path", [*PAGES, *DATA, "/people/minji", "/data/people/minji"])
def test_nobody_gets_in_without_being_let_in(everybody: TestClient, path: str) -> None:
    answer = everybody.get(path, follow_redirects=False)
    assert answer.status_code == (401 if path.startswith("/data") else 303)
    assert answer.headers.get("location") == (None if path.startswith("/data") else "/enter")
    assert not any(name in answer.text for name in (*PEOPLE, *NODES))


@pytest.mark.holds("what somebody chose is escaped")
def test_what_somebody_chose_is_text(everybody: TestClient) -> None:
    for path in ("/nodes/gpu02", "/people/mallory", "/"):
        for language in ("en", "ko"):
            _, html = get(everybody, path, "root admin", **{"accept-language": language})
            assert "<script>alert" not in html
            assert "\u202e" not in html, "text that turns around is written out"
            assert "<b>&" not in html, "an announcement is text"
            assert HOSTILE[40:] not in html, "what is too long ends somewhere"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#39;&#34;&amp;U+202Egnp.exe" in get(everybody, "/nodes/gpu02")[1]


@pytest.mark.parametrize(
    "path", ["/people/<script>", "/people/%22%7D%20or%20up", "/nodes/..%2f..", "/data/nodes/gpu01%22", "/nodes/%00",
             "/people/" + "x" * 3000, "/static/../app.py", "/static/%2e%2e/templates/base.html", "/data/people/a\\"]
)  # fmt: skip
def test_names_that_are_nobodys(everybody: TestClient, path: str) -> None:
    status, text = get(everybody, path, "root admin")
    assert status == 404
    assert "<script>" not in text


def test_nothing_is_inline_and_nothing_from_elsewhere(everybody: TestClient) -> None:
    for path in (*PAGES, "/people/minji", "/nowhere"):
        _, html = get(everybody, path)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html), path
        assert not re.search(r"<script(?! src=\"/static/)", html), path
        assert not re.search(r"(?:src|href|action)=\"(?!/|\?|#)", html), path
        assert "://" not in html, path


def test_a_browser_that_looks_for_an_icon_by_itself(everybody: TestClient) -> None:
    answer = everybody.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


def test_the_language(everybody: TestClient) -> None:
    _, html = get(everybody, "/", **{"accept-language": "ko-KR,ko;q=0.9,en;q=0.5"})
    assert '<html lang="ko">' in html
    assert "노드 7대 중 4대 작동" in html
    answer = everybody.get("/?lang=ko", headers={"test-viewer": "haeun", "accept-language": "en"})
    assert "전체 노드" in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "secure" in cookie
    assert "전체 노드" in get(everybody, "/")[1], "and it stays so"
    assert "All nodes" in get(everybody, "/me?lang=en")[1]
    assert "전체 노드" in get(everybody, "/me?lang=ko")[1]
    assert "All nodes" in get(everybody, "/?lang=en")[1]
    _, html = get(everybody, "/free?gpus=2&memory=40&lang=xx")
    assert "/?lang" not in html
    assert '"?gpus=2&amp;memory=40&amp;lang=ko"' in html, "the other language of the same page"


def test_the_plots(everybody: TestClient) -> None:
    answer = json.loads(get(everybody, "/data/nodes/gpu01?span=1h")[1])
    plots = {plot["id"]: plot for plot in answer["plots"]}
    assert list(plots) == [
        "utilization", "gpu-memory", "power", "temperature", "cpu", "memory", "network", "disk-throughput",
    ]  # fmt: skip
    # a bond is its cards, and a volume is its disks: neither counts twice
    for name, expected in (("network", {"received": 40, "sent": 2}), ("disk-throughput", {"read": 205, "written": 31})):
        assert plots[name]["unit"] == "MB/s"
        found = {one["name"]: [value for value in one["values"] if value is not None] for one in plots[name]["series"]}
        assert list(found) == list(expected)
        for what, value in expected.items():
            assert len(found[what]) > 100
            assert statistics.median(found[what]) == pytest.approx(value, rel=0.02)  # the ends are extrapolated
    use = plots["utilization"]
    assert [one["name"] for one in use["series"]] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert len(use["times"]) == 121
    assert all(len(one["values"]) == 121 for plot in plots.values() for one in plot["series"])
    assert time.time() - use["times"][-1] < 120
    known = [value for value in use["series"][0]["values"] if value is not None]
    assert len(known) > 100
    assert all(30 < value < 100 for value in known)
    person = json.loads(get(everybody, "/data/people/minji?span=1h")[1])["plots"][0]
    assert [one["name"] for one in person["series"]] == ["held", "worked"]
    assert 2.0 in person["series"][0]["values"]
    assert get(everybody, "/data/nodes/gpu01?span=1y")[0] == 404
    assert json.loads(get(everybody, "/data/nodes/gpu07")[1])["plots"] == []


def test_a_lost_gpu_keeps_the_place_of_its_curve() -> None:
    first, second = (Device("gpu1", f"GPU-{one}", one, "", True, *[None] * 5, ()) for one in "ab")
    lost = replace(first, uuid="", index="0", usable=False, lost=True)
    use = [Series({"uuid": "GPU-b"}, ((100.0, 0.5),)), Series({"uuid": "GPU-a"}, ((40.0, 0.9),))]
    for devices, names in (
        ((lost, replace(second, index="1")), ["GPU 0", "GPU 1"]),
        ((replace(second, index="1"),), ["GPU 1", "GPU GPU-a"]),
    ):
        node = Node("gpu1", "up", None, 2, 1, None, None, None, devices)
        (plot,) = node_plots(node, {"utilization": use, **WITHIN}, 100, 60, 60, "en")
        assert [one["name"] for one in plot["series"]] == names


def test_the_page_without_a_login(scene: Scene) -> None:
    path = scene.directory / "status.html"
    with scene.client(status_file=str(path)) as client:
        answer = client.get("/status")
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)  # the first is written by the running service
        written = path.read_text()
    for text in (answer.text, written):
        assert "4 of 7 nodes are up." in text
        assert re.search(r'class=away><th scope="row">gpu05<td>▼ down .*last seen .*[0-9-]{10} [0-9:]{5}', text)
        assert re.search(r'gpu03<td>● up <span lang="ko">작동 중</span>; GPU 4: does not answer', text)
        assert "Power is cut on Friday" in text
        assert not any(name in text for name in (*PEOPLE, *CONTAINERS[:3])), "nobody's name"
        assert "://" not in text
        assert not re.search(r"<link|<img| src=", text), "it is one file"
        assert re.search(r'data-when="[0-9]{10}"', text), "it says of when it is"
        assert len(text) < 20_000
    assert path.stat().st_mode & 0o777 == 0o644
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]


def test_a_prometheus_that_is_away(scene: Scene) -> None:
    """Nothing is said of nodes, rather than that they are down or that all is well."""
    with TestClient(board(free_port(), OpenAccess(), settings(scene.directory, scene.when))) as client:
        status, html = get(client, "/")
        assert status == 503
        assert "says nothing about the nodes" in html
        assert not any(name in html for name in NODES)
        assert client.get("/data/cluster", headers={"test-viewer": "haeun"}).status_code == 503
        text = client.get("/status").text
        assert "cannot say how the nodes are" in text
        assert " are up" not in text


def test_a_page_is_light(everybody: TestClient) -> None:
    """What a phone fetches for a page without plots; the library for plots is fetched once."""
    assert len(get(everybody, "/")[1].encode()) < 12_000
    assert int(everybody.get("/", headers={"test-viewer": "haeun"}).headers["content-length"]) < 4_000, "as it is sent"
    sizes = {name: len(everybody.get(f"/static/{name}").content) for name in ("dashboard.css", "dashboard.js")}
    assert all(size < 10_000 for size in sizes.values()), sizes
    first = everybody.get("/static/uPlot.iife.min.js")
    again = everybody.get("/static/uPlot.iife.min.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, len(again.content)) == (304, 0)


@pytest.mark.holds("a page is not even given what is private")
def test_a_page_is_not_even_given_what_is_private(everybody: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template that asked for it by mistake would find nothing."""
    given: list[set[str]] = []
    real = pages.Pages.page

    def page(self: pages.Pages, request: Any, template: str, values: Any, *rest: Any, **more: Any) -> Any:
        given.append(set(values["person"]))
        return real(self, request, template, values, *rest, **more)

    monkeypatch.setattr(pages.Pages, "page", page)
    for viewer in ("minji", "jiho"):
        assert get(everybody, "/people/jiho", viewer)[0] == 200
    theirs, own = given
    assert own - theirs >= {"disk", "hints"}

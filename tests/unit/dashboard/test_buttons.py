"""Buttons, behind a real nginx: whose they are, of which page, how often; and everything that presses nothing."""

import asyncio
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpuadmin.common import tokens
from gpuadmin.common.pressed import Pressed
from gpuadmin.dashboard import __main__ as service
from gpuadmin.dashboard import access
from gpuadmin.dashboard.buttons import DOOR
from gpuadmin.dashboard.door import AT_ONCE, Door
from gpuadmin.dashboard.files import DashboardError
from tests.support.dashboard_service import PROXY, PROXY_SECRET, SECRET, Running, admin_link, link, running

pytestmark = [pytest.mark.needs("nginx")]
BUTTONS = ["get", "release", "extend", "jobs"]
FIELDS = {"job": "4"}


class FakeDoor:
    """The queue's host: it remembers who pressed what, and says `given back`."""

    def __init__(self, *_: Any) -> None:
        self.pressed, self.answer = list[Pressed](), (0, "Job 4: given back.")
        FakeDoor.last = self

    last: "FakeDoor"

    async def ask(self, pressed: Pressed) -> tuple[int, str]:
        self.pressed.append(pressed)
        if self.answer[0] < 0:
            raise DashboardError("the queue's host does not answer")
        return self.answer


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "Door", FakeDoor)
        directory = tmp_path_factory.mktemp("buttons")
        with running(directory, access={"proxy": PROXY}, buttons=BUTTONS, queue_host="nas1") as found:
            yield found


@pytest.fixture
def door(site: Running) -> FakeDoor:
    FakeDoor.last.pressed.clear()
    FakeDoor.last.answer = (0, "Job 4: given back.")
    return FakeDoor.last


@contextlib.contextmanager
def browser(site: Running, name: str = "minji", text: str = "") -> Iterator[httpx.Client]:
    """Somebody who has come in."""
    with site.client(headers={"Origin": site.url}) as found:
        assert found.post("/enter", data={"link": text or link(name)}).status_code == 303
        yield found


def secret_of(client: httpx.Client, *, name: str = "minji", at: float | None = None) -> str:
    """What a page of that session has in its forms."""
    digest = hashlib.sha256(client.cookies[access.COOKIE].encode()).hexdigest()
    return form_for(digest, name, at)


def form_for(session: str, name: str, at: float | None = None) -> str:
    key = tokens.signing_key(SECRET, tokens.FORM, session)
    return tokens.sign(key, tokens.FORM, session, name, int(time.time() if at is None else at))


def press(client: httpx.Client, form: str, verb: str = "release", **more: Any) -> httpx.Response:
    fields = {**FIELDS, **more.pop("fields", {}), "form": form}
    return client.post(f"/queue/{verb}", data=fields, **more)


@pytest.mark.holds("a form is good once")
def test_a_button_is_pressed_once_in_its_persons_name_and_language(site: Running, door: FakeDoor) -> None:
    with browser(site) as client:
        form = secret_of(client)
        done = press(client, form, headers={"Accept-Language": "ko"})
        assert (done.status_code, "Job 4: given back." in done.text) == (200, True)
        assert door.pressed == [Pressed("minji", "ko", "release", {"job": "4"})]
        again = press(client, form)
        assert (again.status_code, "done already" in again.text) == (409, True)
        assert len(door.pressed) == 1
        door.answer = (1, "People waiting for GPUs: 2. <b>\x1b[2J")
        refused = press(client, secret_of(client), "extend", fields={"hours": "2"})
        assert refused.status_code == 409
        assert "People waiting for GPUs: 2. &lt;b&gt;U+001B[2J" in refused.text


def stolen(site: Running, client: httpx.Client) -> dict[str, Any]:
    """The form of another person's page."""
    with browser(site, "jiho") as other:
        return {"form": secret_of(other, name="jiho")}


def renamed(site: Running, client: httpx.Client) -> dict[str, Any]:
    """The form of another's session that says it is hers."""
    with browser(site, "jiho") as other:
        return {"form": secret_of(other, name="minji")}


def earlier(site: Running, client: httpx.Client) -> dict[str, Any]:
    """The form of an earlier session of her own."""
    with browser(site) as other:
        return {"form": secret_of(other)}


ATTACKS: dict[str, Any] = {
    "no secret": ({"form": ""}, 403),
    "odd secret": ({"form": "form~x~minji~1~" + "0" * 32 + "~" + "0" * 64}, 403),
    "her cookie as secret": (lambda site, client: {"form": client.cookies[access.COOKIE]}, 403),
    "a link as secret": (lambda site, client: {"form": link()}, 403),
    "another's page": (stolen, 403),
    "another's session, her name": (renamed, 403),
    "an earlier session": (earlier, 403),
    "her session, another's name": (lambda site, client: {"form": secret_of(client, name="jiho")}, 403),
    "an old page": (lambda site, client: {"form": secret_of(client, at=time.time() - 3601)}, 403),
    "a page of tomorrow": (lambda site, client: {"form": secret_of(client, at=time.time() + 86400)}, 403),
    "foreign origin": ({"headers": {"Origin": "https://evil.example"}}, 403),
    "an origin of the same name by http": ({"headers": {"Origin": "http://localhost"}}, 403),
    "a page of no origin (sandboxed frame)": ({"headers": {"Origin": "null"}}, 403),
    "cross-site, by the browser's word": ({"headers": {"Sec-Fetch-Site": "cross-site"}}, 403),
    "same-site": ({"headers": {"Sec-Fetch-Site": "same-site"}}, 403),
    "a job that is none": ({"fields": {"job": "4;id"}}, 400),
    "an option": ({"fields": {"job": "--all"}}, 400),
    "no job": ({"fields": {"job": ""}}, 400),
    "two jobs": ({"fields": {"job": ["4", "5"]}}, 400),
    "a further line": ({"fields": {"job": "4\njiho en release 5"}}, 400),
    "another's name in a field": ({"fields": {"user": "jiho", "job": "x"}}, 400),
    "a verb that the site has not": ({"verb": "book"}, 404),
    "no verb of ours": ({"verb": "exec"}, 404),
}  # fmt: skip


@pytest.mark.holds(
    "a form comes from a page of the dashboard",
    "a browser that says it comes from elsewhere is believed",
    "a form is good for its own session",
    "a form is good for its own person",
)
@pytest.mark.parametrize("name", ATTACKS)
def test_what_presses_nothing(name: str, site: Running, door: FakeDoor) -> None:
    """Each but for one thing as the button would be pressed."""
    how, status = ATTACKS[name]
    with browser(site) as client:
        more = dict(how(site, client) if callable(how) else how)
        answer = press(client, more.pop("form", None) or ("" if "form" in how else secret_of(client)), **more)
    assert (answer.status_code, door.pressed) == (status, [])


def test_a_program_without_an_origin_presses_nothing(site: Running, door: FakeDoor) -> None:
    with browser(site) as client:
        form = secret_of(client)
        del client.headers["Origin"]
        assert (press(client, form).status_code, door.pressed) == (403, [])


def test_an_address_presses_nothing(site: Running, door: FakeDoor) -> None:
    """A link or an image leads to GET, which no button answers."""
    with browser(site) as client:
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            answer = client.request(method, "/queue/release", params={"job": "4", "form": secret_of(client)})
            assert answer.status_code == 405, method
    assert door.pressed == []


def test_nobody_presses_without_a_session(site: Running, door: FakeDoor) -> None:
    """Somebody has her page's secret and no cookie of hers; or has left; or one of their own."""
    with browser(site) as client:
        form = secret_of(client)
        with site.client(headers={"Origin": site.url}) as nobody:
            assert press(nobody, form).status_code == 303
        with browser(site, "jiho") as other:
            assert press(other, form).status_code == 403
        cookie = client.cookies[access.COOKIE]
        assert client.post("/leave").status_code == 303
        client.cookies.set(access.COOKIE, cookie)
        assert press(client, form).status_code == 303
    assert door.pressed == []


def test_ones_own_jobs(site: Running, door: FakeDoor) -> None:
    """Whatever the address says, they are those of the session's person."""
    door.answer = (0, "4  node1  done\n5  node2  <b>")
    with browser(site) as client:
        page = client.get("/jobs", params={"user": "jiho", "lang": "en"})
        assert (page.status_code, "5  node2  &lt;b&gt;" in page.text) == (200, True)
    assert door.pressed == [Pressed("minji", "en", "jobs", {})]
    with site.client() as nobody, browser(site, text=admin_link()) as admin:
        assert (nobody.get("/jobs").status_code, admin.get("/jobs").status_code) == (303, 404)
    assert len(door.pressed) == 1


def test_an_admins_session_presses_nothing(site: Running, door: FakeDoor) -> None:
    """Links of the controller name a person and a machine; a proxy names admins who are people, and they see all."""
    with browser(site, text=admin_link()) as client:
        assert press(client, secret_of(client, name="minji")).status_code == 404
    named = {"X-Remote-User": "yseong", access.SECRET_HEADER: PROXY_SECRET, "Origin": site.url}
    with site.client(headers=named) as client:
        assert press(client, form_for(access.BY_PROXY, "yseong")).status_code == 404
    assert door.pressed == []


def test_whom_the_proxy_names_presses_in_that_name(site: Running, door: FakeDoor) -> None:
    named = {"X-Remote-User": "haeun", access.SECRET_HEADER: PROXY_SECRET, "Origin": site.url}
    with site.client(headers=named) as client:
        assert press(client, form_for(access.BY_PROXY, "minji")).status_code == 403
        assert press(client, form_for(access.BY_PROXY, "haeun")).status_code == 200
    assert [one.user for one in door.pressed] == ["haeun"]


def test_no_page_is_in_a_frame_and_no_cookie_comes_from_elsewhere(site: Running) -> None:
    """A page that embeds ours, or sends its form: the browser refuses one, and sends no cookie with the other."""
    with browser(site) as client:
        answer = client.get("/queue")
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
    with site.client() as client:
        given = client.post("/enter", data={"link": link()}).headers["set-cookie"].lower()
        assert "samesite=lax" in given


def test_one_person_presses_so_often_and_keeps_nobody_out(site: Running, door: FakeDoor) -> None:
    with browser(site, "doyun") as client, browser(site, "sora") as other:
        answers = [press(client, secret_of(client, name="doyun")).status_code for _ in range(52)]
        assert (answers.count(200), answers[-1]) == (50, 429)
        assert press(other, secret_of(other, name="sora")).status_code == 200


@pytest.mark.parametrize(("status", "code"), [*((one, code) for one, (code, _) in DOOR.items()), (-1, 504)])
def test_what_the_door_says_besides(status: int, code: int, site: Running, door: FakeDoor) -> None:
    door.answer = (status, "secret words")
    with browser(site) as client:
        answer = press(client, secret_of(client))
        assert (answer.status_code, "secret words" in answer.text) == (code, False)


@pytest.mark.holds("buttons that are pressed at once wait for each other")
def test_buttons_that_are_pressed_at_once_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is pressed, the queue's host does four things at a time."""
    at_work, most, gate = 0, 0, threading.Lock()

    def talk(_door: Door, pressed: Pressed) -> tuple[int, str]:
        nonlocal at_work, most
        with gate:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.05)  # what the host needs
        with gate:
            at_work -= 1
        return 0, pressed.user

    monkeypatch.setattr(Door, "_talk", talk)
    door = Door.__new__(Door)
    door._turns = None

    async def press_all() -> list[tuple[int, str]]:
        return await asyncio.gather(*(door.ask(Pressed(f"p{one}", "en", "cancel", {})) for one in range(12)))

    assert asyncio.run(press_all()) == [(0, f"p{one}") for one in range(12)]
    assert most == AT_ONCE


def test_a_site_without_buttons_has_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(service, "Door", lambda *given: made.append(given))
    with running(tmp_path) as plain, browser(plain) as client:
        assert press(client, secret_of(client)).status_code == 404
    assert made == []
    assert "buttons" not in json.loads((tmp_path / "dashboard.json").read_text())

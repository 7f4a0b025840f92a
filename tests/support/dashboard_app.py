"""The dashboard as a test has it: the real application, access that let in whom the test says, a Prometheus."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from gpuadmin.dashboard.app import application
from gpuadmin.dashboard.prometheus import Prometheus
from gpuadmin.dashboard.viewer import Settings, Viewer, parse_viewer_settings
from tests.support.dashboard_scene import NODES, before, now
from tests.support.prometheus import blocks, prometheus

FILES = Path(__file__).parents[2] / "gpuadmin/dashboard"
NODES_OF_SITE = (*NODES, "gpu07")  # which was never measured


class OpenAccess:
    """Whoever asks is the person in the header `test-viewer`: name, or name and `admin`."""

    def viewer(self, request: Request) -> Viewer | None:
        name, _, admin = request.headers.get("test-viewer", "").partition(" ")
        return Viewer(name, admin == "admin") if name else None

    def routes(self) -> list[Any]:
        return []


class OneViewer(OpenAccess):
    """Everybody is the same person: for a browser."""

    def __init__(self, name: str) -> None:
        self._name = name

    def viewer(self, request: Request) -> Viewer | None:
        return Viewer(self._name, False)

    def sign_form(self, viewer: Viewer) -> str:
        return f"form of {viewer.name}"


def settings(directory: Path, now: float, **more: Any) -> Settings:
    """What the role would write, with one announcement that holds and one that does not yet."""
    entries = [
        {"id": "a1", "begin": int(now) - 60, "end": int(now) + 86400 * 3, "text":
         "*** the lab: Power is cut on Friday\nSave your work by 18:00.\n\n*** the lab: 금요일에 정전이 있습니다\n"
         "18시까지 작업을 저장하세요. <b>&</b>"},
        {"id": "a2", "begin": int(now) + 86400, "end": int(now) + 86400 * 3, "text": "Not yet"},
    ]  # fmt: skip
    path = directory / "announcements.json"
    path.write_text(json.dumps(entries))
    document = {
        "cluster": "Department GPUs", "nodes": list(NODES_OF_SITE), "announcements": str(path),
        "cookie_name": "of the access", "admins": ["root", "gpuadmin"],
    }  # fmt: skip
    return replace(parse_viewer_settings(document), **more)


def board(port: int, access: Any, site: Settings, door: Any = None) -> Any:
    return application(prometheus=Prometheus(port), access=access, settings=site, files=str(FILES), door=door)


class Scene(NamedTuple):
    """Where the Prometheus answers, of when the scene is, and a directory for files."""

    port: int
    when: float
    directory: Path

    def client(self, **more: Any) -> TestClient:
        """A browser without cookies of its own; who it is says the header `test-viewer`."""
        site = settings(self.directory, self.when, **more)
        return TestClient(
            board(self.port, OpenAccess(), site), base_url="https://monitor", raise_server_exceptions=False
        )


def get(client: TestClient, path: str, viewer: str = "haeun", **headers: str) -> tuple[int, str]:
    answer = client.get(path, headers={"test-viewer": viewer, "accept-language": "en", **headers})
    return answer.status_code, answer.text


def plain(html: str) -> str:
    """A page's text, without markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def rows(html: str) -> dict[str, str]:
    """By the head of each row of the page's tables: its text, without markup."""
    found = {}
    for row in re.findall(r'<tr role="row"[^>]*>(.*?)</tr>', html, re.DOTALL):
        text = plain(row)
        found.setdefault(text.split(" ")[0], text)
    return found


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("scene")
    when = time.time()
    # the same holds some minutes later, so that a slow machine does not make it stale
    lines = [*before(when, hours=10), *now(when), *now(when + 240), *now(when + 480)]
    with prometheus(directory, blocks(directory, lines)) as port:
        yield Scene(port, when, directory)

"""Whoever asks how everything was, again and again, keeps nobody else from a page."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from gpuadmin.dashboard.answer_turns import AnswerTurns
from gpuadmin.dashboard.prometheus import Asked, Prometheus
from tests.support.dashboard_service import link, running
from tests.support.fake_prometheus import Server, answering

pytestmark = pytest.mark.holds("how things are does not wait for how they were")

MATRIX = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as made:
        yield made


def test_how_things_are_does_not_wait_for_how_they_were(server: Server) -> None:
    server.seconds, server.answer = 0.2, MATRIX

    async def both() -> float:
        asked = Asked(Prometheus(server.port))
        slow = [asyncio.ensure_future(asked.over_time(f"up{number}", 0, 60, 30)) for number in range(30)]
        slow += [asyncio.ensure_future(asked.now(f"up{number}", 300.0, slow=True)) for number in range(30)]  # type: ignore[arg-type]  # both are waited for alone
        await asyncio.sleep(0.05)  # they are under way
        began = asyncio.get_running_loop().time()
        await asyncio.gather(asked.now("up"), return_exceptions=True)
        took = asyncio.get_running_loop().time() - began
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return took

    assert asyncio.run(both()) < 1.5, "all of them take four seconds"


def test_one_person_has_one_answer_at_a_time() -> None:
    turns, order = AnswerTurns(), []

    async def one(name: str, number: int) -> None:
        async with turns.take(name):
            order.append((name, number))
            await asyncio.sleep(0.05)  # Prometheus is asked

    async def all_of_them() -> None:
        await asyncio.gather(*(one("mallory", number) for number in range(10)), one("minji", 0))

    asyncio.run(all_of_them())
    assert order[:2] == [("mallory", 0), ("minji", 0)], "who comes last waits for none of another's"
    assert order[2:] == [("mallory", number) for number in range(1, 10)]
    assert not turns._waiting
    assert not turns._locks, "nobody is remembered"


def test_who_asks_on_and_on_is_told_to_wait() -> None:
    """Also one who does not wait for the answers: what was asked is under way all the same, and takes memory."""
    turns = AnswerTurns()

    async def one(name: str) -> None:
        async with turns.take(name):
            await asyncio.sleep(0.02)  # Prometheus is asked

    async def many() -> list[Any]:
        return list(await asyncio.gather(*(one("mallory") for _ in range(20)), one("minji"), return_exceptions=True))

    found = asyncio.run(many())
    assert [isinstance(one, HTTPException) and one.status_code for one in found] == [*[False] * 16, *[429] * 4, False]


@pytest.mark.needs("nginx")
@pytest.mark.parametrize("path", ["/data/cluster", "/people/minji", "/data/people/minji"])
def test_what_somebody_is_told_then(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuadmin.dashboard.answer_turns.WAITING", 0)
    with running(tmp_path) as service, service.client() as browser:
        browser.post("/enter", data={"link": link()})
        answer = browser.get(path)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")
    assert ("wait" if "/data/" in path else "Too many pages at once") in answer.text
    assert "no such page" not in answer.text
